#include "optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

Schedule schedule_of(const TrainConfig& config, const RunLength& length) {
  return {
      .name = config.schedule.name, .peak = config.optimizer.lr, .minimum = config.schedule.min_lr, .length = length};
}

double learning_rate(const Schedule& schedule, std::int64_t step) {
  const double peak = schedule.peak;
  const std::int64_t warmup = schedule.length.warmup_steps, end = schedule.length.decay_steps;
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule.name == ScheduleName::constant) return peak;
  if (step >= end) return schedule.minimum;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(end - warmup);
  const double left =
      schedule.name == ScheduleName::linear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return schedule.minimum + left * (peak - schedule.minimum);
}

}  // namespace lockstep
