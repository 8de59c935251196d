#include "train/meter.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(meter)

namespace {

/// Three steps that end at 110, 112 and 116 s, of 4 samples and 100 labels each, with 1 s of evaluation in the second
/// and 2 s behind the last.
Meter after_three_steps(std::int64_t speed_from_step, std::optional<double> peak = {}) {
  Meter meter({.last_step = 10, .flops_per_token = 6, .peak_flops_per_s = peak, .speed_from_step = speed_from_step},
              100);
  meter.count(110, 4, 100, 0.5);
  meter.exclude(1);
  meter.count(112, 4, 100, 0.5);
  meter.count(116, 4, 100, 0.5);
  meter.exclude(2);
  return meter;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_speed_is_that_of_all_steps_from_the_one_that_is_said_without_evaluations) {
  const auto all = after_three_steps(1).speed();
  BOOST_TEST(all->steps_per_s == 3.0 / 15);
  BOOST_TEST(all->samples_per_s == 12.0 / 15);
  BOOST_TEST(all->tokens_per_s == 300.0 / 15);
  const auto warm = after_three_steps(2).speed();
  BOOST_TEST(warm->steps_per_s == 2.0 / 5);
  BOOST_TEST(warm->samples_per_s == 8.0 / 5);
  BOOST_TEST(warm->tokens_per_s == 200.0 / 5);
  BOOST_TEST(warm->flops_per_s == 240);
  const auto last = after_three_steps(3).speed();
  BOOST_TEST(last->steps_per_s == 1.0 / 4);
}

BOOST_AUTO_TEST_CASE(without_a_step_that_counts_there_is_no_speed) {
  BOOST_TEST(!after_three_steps(4).speed().has_value());
  BOOST_TEST(!Meter({}, 0).speed().has_value());
  BOOST_TEST(after_three_steps(4).samples() == 12);
}

BOOST_AUTO_TEST_CASE(the_speed_of_two_starts_is_that_of_their_steps_in_their_time_and_of_both_machines) {
  const Meter first = after_three_steps(2, 480), second = after_three_steps(3, 960);
  const auto both = second.speed_of(first.timed() + second.timed());
  BOOST_TEST(both->steps_per_s == 3.0 / 9);
  BOOST_TEST(both->samples_per_s == 12.0 / 9);
  BOOST_TEST(both->tokens_per_s == 300.0 / 9);
  BOOST_TEST(both->mfu.value() == 300.0 * 6 / (5 * 480 + 4 * 960));
  BOOST_TEST(!second.speed_of(first.timed() + after_three_steps(2).timed())->mfu.has_value());
}

BOOST_AUTO_TEST_CASE(utilisation_is_known_where_the_peak_is) {
  BOOST_TEST(!after_three_steps(2).speed()->mfu.has_value());
  BOOST_TEST(after_three_steps(2, 480).speed()->mfu.value() == 0.5);
}

BOOST_AUTO_TEST_CASE(a_reading_is_of_the_steps_since_the_one_before) {
  Meter meter = after_three_steps(2);
  const Meter::Reading first = meter.read(118, 3);
  BOOST_TEST(first.step_ms == 5000);  // of 18 s 3 were no step's
  BOOST_TEST(first.tokens_per_s == 20);
  BOOST_TEST(first.samples_per_s == 0.8);
  meter.count(119, 4, 100, 0);
  const Meter::Reading second = meter.read(119, 4);
  BOOST_TEST(second.step_ms == 1000);
  BOOST_TEST(second.samples_per_s == 4);
}

BOOST_AUTO_TEST_SUITE_END()
