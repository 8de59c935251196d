#include "train/divergence.hpp"

#include "base/random.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(divergence)

using namespace lockstep;

namespace {

DivergenceOptions options_of(DivergenceDetector detector) {
  DivergenceOptions options;
  options.detector = detector;
  options.few = 4;
  options.many = 12;
  options.threshold = 0.5;
  return options;
}

double mean_of(const std::vector<double>& losses, std::size_t count) {
  double sum = 0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(count);
}

}  // namespace

BOOST_AUTO_TEST_CASE(averages_and_windows_are_those_of_all_losses_at_every_step) {
  const DivergenceOptions by_averages = options_of(DivergenceDetector::averages),
                          by_windows = options_of(DivergenceDetector::windows);
  LossHistory averages, windows;
  const RandomStream stream(4, "losses");
  std::vector<double> losses;
  double few = 0, many = 0;
  for (std::uint64_t step = 0; step < 60; ++step) {
    const double loss = 3 + stream.normal(step) + (step > 40 ? 0.2 * static_cast<double>(step - 40) : 0);
    losses.push_back(loss);
    few = step == 0 ? loss : 0.75 * few + 0.25 * loss;
    many = step == 0 ? loss : many * 11 / 12 + loss / 12;
    count_loss(by_averages, "steps", loss, averages);
    count_loss(by_windows, "steps", loss, windows);
    BOOST_TEST(std::abs(rise_of(by_averages, averages).value() - (few - many)) < 1e-12);
    BOOST_TEST(has_diverged(by_averages, averages) == (few - many >= 0.5));
    BOOST_TEST(rise_of(by_windows, windows).has_value() == (losses.size() >= 12));
    if (losses.size() < 12) continue;
    const double rise = mean_of(losses, 4) - mean_of(losses, 12);
    BOOST_TEST(std::abs(rise_of(by_windows, windows).value() - rise) < 1e-12);
    BOOST_TEST(has_diverged(by_windows, windows) == (rise >= 0.5));
    BOOST_TEST(windows.last.size() == 12u);
  }
  BOOST_TEST((has_diverged(by_averages, averages) && has_diverged(by_windows, windows)));
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_and_what_nobody_looks_at_is_not_counted) {
  LossHistory history;
  count_loss({}, "steps", 1, history);
  BOOST_TEST((history == LossHistory()));
  for (const DivergenceDetector detector : {DivergenceDetector::averages, DivergenceDetector::windows}) {
    history = {};
    count_loss(options_of(detector), "steps", std::numeric_limits<double>::quiet_NaN(), history);
    count_loss(options_of(detector), "steps", std::numeric_limits<double>::infinity(), history);
    BOOST_TEST((history == LossHistory() && !has_diverged(options_of(detector), history)));
  }
}

BOOST_AUTO_TEST_CASE(what_was_counted_of_other_losses_or_by_another_detector_counts_no_more) {
  for (const auto& [detector, of] :
       {std::pair(DivergenceDetector::averages, "an evaluation"),
        std::pair(DivergenceDetector::windows, "an evaluation"), std::pair(DivergenceDetector::windows, "steps")}) {
    LossHistory history, anew;
    for (int i = 0; i < 20; ++i) count_loss(options_of(DivergenceDetector::averages), "steps", 1, history);
    for (int i = 0; i < 12; ++i) {
      count_loss(options_of(detector), of, 9 + i, history);
      count_loss(options_of(detector), of, 9 + i, anew);
    }
    BOOST_TEST((history == anew));
  }
  LossHistory of_earlier_version{.few = 1, .many = 1, .last = {}, .of = {}},
      same{.few = 1, .many = 1, .last = {}, .of = "averages of steps"};
  for (LossHistory* history : {&of_earlier_version, &same})
    count_loss(options_of(DivergenceDetector::averages), "steps", 3, *history);
  BOOST_TEST((of_earlier_version == same && *same.few == 1.5));
}

BOOST_AUTO_TEST_SUITE_END()
