#include "train/cadence_clock.hpp"

#include "data/sample_order.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

BOOST_AUTO_TEST_SUITE(cadences)

using namespace lockstep;

namespace {

/// The steps of a run after which it is due, of `steps` steps of `batch` samples; from `first` on, as a run that goes
/// on sees it.
std::vector<std::int64_t> due_steps(const Cadence& cadence, std::int64_t samples, std::int64_t batch,
                                    std::int64_t steps, std::int64_t first = 1) {
  const SampleOrder order(OrderSettings{.datasets = {samples}});
  std::vector<std::int64_t> due;
  for (std::int64_t step = first; step <= steps; ++step) {
    const DataPosition before = order.advance({}, (step - 1) * batch), after = order.advance({}, step * batch);
    if (due_after(cadence, step, before, after, samples)) due.push_back(step);
  }
  return due;
}

}  // namespace

// A part of an epoch is full with the first step that has seen all of its samples: they are counted one by one.
BOOST_AUTO_TEST_CASE(parts_of_epochs_are_due_with_the_step_that_fills_them_wherever_a_run_goes_on) {
  for (const std::int64_t tenths : {1, 3, 5, 10, 25})
    for (std::int64_t samples = 1; samples <= 40; samples += 3)
      for (std::int64_t batch = 1; batch <= 9; ++batch) {
        std::vector<std::int64_t> want;
        std::int64_t full = 0;  // in tenths of samples
        for (std::int64_t step = 1; step <= 60; ++step) {
          bool due = false;
          for (std::int64_t sample = (step - 1) * batch + 1; sample <= step * batch; ++sample)
            while (10 * sample >= full + tenths * samples) {
              full += tenths * samples;
              due = true;
            }
          if (due) want.push_back(step);
        }
        const Cadence cadence{.epochs = static_cast<double>(tenths) / 10};
        BOOST_REQUIRE(due_steps(cadence, samples, batch, 60) == want);
        for (const std::int64_t first : {17, 31}) {
          const std::vector<std::int64_t> rest = due_steps(cadence, samples, batch, 60, first);
          BOOST_REQUIRE(std::vector<std::int64_t>(std::ranges::lower_bound(want, first), want.end()) == rest);
        }
      }
}

BOOST_AUTO_TEST_CASE(steps_are_those_of_the_whole_run) {
  const Cadence cadence{.steps = 7};
  BOOST_TEST(due_steps(cadence, 10, 3, 30) == std::vector<std::int64_t>({7, 14, 21, 28}),
             boost::test_tools::per_element());
  BOOST_TEST(due_steps(cadence, 10, 3, 30, 9) == std::vector<std::int64_t>({14, 21, 28}),
             boost::test_tools::per_element());
  BOOST_TEST(due_steps({}, 10, 3, 30).empty());
}

BOOST_AUTO_TEST_CASE(of_several_units_each_is_due_at_its_own_steps) {
  std::vector<std::int64_t> want = due_steps({.steps = 7}, 10, 3, 60);
  std::ranges::copy(due_steps({.epochs = 0.7}, 10, 3, 60), std::back_inserter(want));
  std::ranges::sort(want);
  want.erase(std::ranges::unique(want).begin(), want.end());
  BOOST_TEST(due_steps({.steps = 7, .epochs = 0.7, .time = {1e-9}}, 10, 3, 60) == want,
             boost::test_tools::per_element());
}

// Samples are counted one by one.
BOOST_AUTO_TEST_CASE(a_delay_is_over_with_the_step_that_fills_it) {
  for (const std::int64_t tenths : {1, 5, 10, 25})
    for (const std::int64_t samples : {7, 10, 40})
      for (const std::int64_t batch : {1, 3, 9}) {
        const SampleOrder order(OrderSettings{.datasets = {samples}});
        std::int64_t seen = 0;
        for (std::int64_t step = 1; step <= 60; ++step) {
          seen += batch;
          const Delay delay{.epochs = static_cast<double>(tenths) / 10};
          BOOST_REQUIRE(is_over(delay, step, order.advance({}, step * batch), samples) ==
                        (10 * seen >= tenths * samples));
          BOOST_REQUIRE(is_over({.steps = 8}, step, order.advance({}, step * batch), samples) == (step >= 8));
          BOOST_REQUIRE(is_over({}, step, order.advance({}, step * batch), samples));
        }
      }
}

BOOST_AUTO_TEST_CASE(time_counts_from_when_it_was_last_done) {
  CadenceClock clock({.time = {60}}, 100);
  BOOST_TEST(!clock.due(159));
  BOOST_TEST(clock.due(160));
  clock.done(170);
  BOOST_TEST(!clock.due(229));
  BOOST_TEST(clock.due(230));
  BOOST_TEST(!CadenceClock({.steps = 1}, 0).due(1e9));
}

BOOST_AUTO_TEST_SUITE_END()
