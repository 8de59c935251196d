#include "train/save_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(save_clock)

namespace {

/// The expected time, per second of work, of intervals of `work_s` each followed by a save, where failures come at
/// random and an interval that fails is done again.
double expected_time(double work_s, double cost_s, double mtbf_s) {
  return mtbf_s * std::expm1((work_s + cost_s) / mtbf_s) / work_s;
}

SaveClock clock_of(const std::string& interval, double mtbf_s = 86400) {
  CheckpointOptions options;
  options.interval = SaveInterval::parse(interval);
  options.mtbf = {mtbf_s};
  return {options, 100};
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_automatic_interval_loses_as_little_as_any) {
  for (const double cost_s : {0.01, 0.5, 5.0, 60.0, 600.0}) {
    for (const double mtbf_s : {3600.0, 11160.0, 86400.0, 1e6}) {
      const double chosen = expected_time(least_loss_interval(cost_s, mtbf_s), cost_s, mtbf_s);
      double least = chosen;
      for (double work_s = cost_s; work_s < 4 * mtbf_s; work_s *= 1.01)
        least = std::min(least, expected_time(work_s, cost_s, mtbf_s));
      BOOST_TEST(chosen <= least * 1.0001, cost_s << " s, a failure every " << mtbf_s << " s");
    }
  }
  BOOST_TEST(least_loss_interval(100, 20) == 100);  // never shorter than a save
}

BOOST_AUTO_TEST_CASE(a_save_is_due_when_the_interval_since_the_last_one_is_over) {
  SaveClock clock = clock_of("60s");
  BOOST_TEST(!clock.due(159.9));
  BOOST_TEST(clock.due(160));
  clock.save_ended(3, 163);
  BOOST_TEST(!clock.due(222.9));
  BOOST_TEST(clock.due(223));
  BOOST_TEST(!SaveClock(CheckpointOptions{}, 0).due(1e12));
}

BOOST_AUTO_TEST_CASE(an_automatic_interval_learns_what_a_save_costs) {
  SaveClock clock = clock_of("auto", 20000);
  BOOST_TEST(!clock.due(399));
  BOOST_TEST(clock.due(400));
  clock.save_ended(1, 401);
  const double interval_s = least_loss_interval(1, 20000);
  BOOST_TEST(interval_s == 200, boost::test_tools::tolerance(0.02));  // √(2 · 1 · 20000)
  BOOST_TEST(!clock.due(401 + interval_s - 0.1));
  BOOST_TEST(clock.due(401 + interval_s + 0.1));
  clock.save_ended(9, 1000);
  clock.save_ended(1, 2000);  // the longest counts
  BOOST_TEST(!clock.due(2000 + least_loss_interval(9, 20000) - 0.1));
}

BOOST_AUTO_TEST_SUITE_END()
