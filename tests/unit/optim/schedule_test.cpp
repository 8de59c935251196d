#include "optim/schedule.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <numbers>

BOOST_AUTO_TEST_SUITE(schedules)

using namespace lockstep;

namespace {

Schedule schedule_named(ScheduleName name) { return {name, 0.6, 0.06, {1000, 4, 10}}; }

bool near(double a, double b) { return std::abs(a - b) < 1e-15; }

}  // namespace

BOOST_AUTO_TEST_CASE(warm_up_rises_in_equal_steps_and_reaches_the_peak_at_its_last_step) {
  for (const ScheduleName name : {ScheduleName::constant, ScheduleName::linear, ScheduleName::cosine}) {
    const Schedule schedule = schedule_named(name);
    BOOST_TEST(near(learning_rate(schedule, 0), 0.15));
    BOOST_TEST(near(learning_rate(schedule, 1), 0.30));
    BOOST_TEST(near(learning_rate(schedule, 3), 0.60));
    BOOST_TEST(near(learning_rate(schedule, 4), 0.60));
  }
}

BOOST_AUTO_TEST_CASE(cosine_is_half_way_in_the_middle_and_ends_at_the_minimum) {
  const Schedule schedule = schedule_named(ScheduleName::cosine);
  BOOST_TEST(near(learning_rate(schedule, 7), 0.33));
  BOOST_TEST(near(learning_rate(schedule, 5), 0.06 + 0.54 * 0.5 * (1 + std::cos(std::numbers::pi / 6))));
  BOOST_TEST(near(learning_rate(schedule, 10), 0.06));
  BOOST_TEST(near(learning_rate(schedule, 5000), 0.06));
}

BOOST_AUTO_TEST_CASE(linear_falls_in_equal_steps_and_constant_stays) {
  BOOST_TEST(near(learning_rate(schedule_named(ScheduleName::linear), 5), 0.51));
  BOOST_TEST(near(learning_rate(schedule_named(ScheduleName::linear), 10), 0.06));
  BOOST_TEST(near(learning_rate(schedule_named(ScheduleName::constant), 5000), 0.6));
}

BOOST_AUTO_TEST_CASE(decay_ends_with_the_run_unless_told_otherwise_and_needs_no_warm_up) {
  TrainConfig config;
  config.optimizer.lr = 0.6;
  config.schedule.name = ScheduleName::linear;
  config.schedule.min_lr = 0.06;
  const Schedule schedule = schedule_of(config, length_of(config, 1000));
  BOOST_TEST(near(learning_rate(schedule, 0), 0.6));
  BOOST_TEST(near(learning_rate(schedule, 500), 0.33));
  BOOST_TEST(near(learning_rate(schedule, 1000), 0.06));
}

BOOST_AUTO_TEST_SUITE_END()
