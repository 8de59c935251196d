#include "optim/schedule.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>

BOOST_AUTO_TEST_SUITE(schedules)

using namespace lockstep;

namespace {

Schedule schedule_named(ScheduleName name) {
  Schedule schedule{.options = {}, .peak = 0.6, .length = {1000, 4, 10, 3}};
  schedule.options.name = name;
  schedule.options.min_lr = 0.06;
  return schedule;
}

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

BOOST_AUTO_TEST_CASE(warm_up_that_is_counted_from_zero_begins_at_the_start_and_reaches_the_peak_behind_its_last_step) {
  for (const ScheduleName name : {ScheduleName::constant, ScheduleName::linear, ScheduleName::cosine}) {
    Schedule schedule = schedule_named(name);
    schedule.options.warmup_from = WarmupFrom::zero;
    schedule.options.start_lr = 0.2;
    BOOST_TEST(near(learning_rate(schedule, 0), 0.2));
    BOOST_TEST(near(learning_rate(schedule, 1), 0.3));
    BOOST_TEST(near(learning_rate(schedule, 3), 0.5));
    BOOST_TEST(near(learning_rate(schedule, 4), 0.6));
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

// Each formula written down a second time, over settings that are drawn, at every step.
BOOST_AUTO_TEST_CASE(every_schedule_is_its_formula_at_every_step_of_runs_that_are_drawn) {
  std::mt19937_64 draw(3);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(end));
  };
  const auto fraction = [&] { return static_cast<double>(below(1000) + 1) / 1001; };
  const double pi = std::acos(-1.0);
  for (int i = 0; i < 350; ++i) {
    Schedule schedule;
    ScheduleOptions& options = schedule.options;
    options.name = static_cast<ScheduleName>(i % 7);
    schedule.peak = fraction();
    options.min_lr = schedule.peak * fraction() / 4;
    options.start_lr = schedule.peak * fraction();
    options.warmup_from = below(2) == 0 ? WarmupFrom::one : WarmupFrom::zero;
    const std::int64_t steps = 20 + below(200), warmup = below(10), end = warmup + 5 + below(steps - warmup - 4);
    std::int64_t cooldown = 1 + below(5);
    schedule.length = {steps, warmup, end, cooldown};
    options.cooldown_shape = std::optional(static_cast<CooldownShape>(below(3)));
    options.power = std::optional(4 * fraction());
    options.cycles = std::optional(1 + below(4));
    options.timescale = 1 + below(50);
    options.constant_lr = schedule.peak / 2;
    if (options.name == ScheduleName::infinite && end > steps - cooldown) cooldown = schedule.length.cooldown_steps = 0;
    const double low = options.min_lr, height = schedule.peak - low;
    for (std::int64_t step = 0; step < steps + 20; ++step) {
      const auto t = static_cast<double>(step);
      const auto W = static_cast<double>(warmup), S = static_cast<double>(end), C = static_cast<double>(cooldown);
      double want = 0;
      const double p = std::min(1.0, (t - W) / (S - W));
      if (step < warmup) {
        want =
            options.start_lr + (schedule.peak - options.start_lr) * (t + (options.warmup_from == WarmupFrom::one)) / W;
      } else if (options.name == ScheduleName::constant) {
        want = schedule.peak;
      } else if (options.name == ScheduleName::linear) {
        want = low + height * (1 - p);
      } else if (options.name == ScheduleName::cosine) {
        want = p == 1
                   ? low
                   : low + height *
                               (1 + std::cos(pi * std::fmod(p * static_cast<double>(options.cycles.value()), 1.0))) / 2;
      } else if (options.name == ScheduleName::polynomial) {
        want = low + height * std::pow(1 - p, options.power.value());
      } else if (options.name == ScheduleName::inverse_sqrt) {
        const auto T = static_cast<double>(*options.timescale);
        want = std::max(low, schedule.peak / std::sqrt((t + T - W) / T));
      } else if (options.name == ScheduleName::wsd) {
        const double c = std::clamp((t - (S - C)) / C, 0.0, 1.0);
        const double left = std::array{1 - c, (1 + std::cos(pi * c)) / 2,
                                       1 - std::sqrt(c)}[static_cast<std::size_t>(options.cooldown_shape.value())];
        want = low + height * left;
      } else {
        const double constant = *options.constant_lr, begin = static_cast<double>(steps) - C;
        want = constant + (schedule.peak - constant) * (1 + std::cos(pi * p)) / 2;
        if (cooldown > 0 && t > begin)
          want = constant * std::exp(std::log(low / constant) * std::min(1.0, (t - begin) / C));
      }
      BOOST_REQUIRE_MESSAGE(
          std::abs(learning_rate(schedule, step) - want) <= 1e-12 * schedule.peak,
          "setting " << i << ", step " << step << ": " << learning_rate(schedule, step) << ", not " << want);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
