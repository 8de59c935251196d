#include "optim/schedule.hpp"

#include "config/train_config.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

double learning_rate(const TrainConfig& config, std::int64_t step) {
  const double peak = config.optimizer.lr;
  const std::int64_t warmup = config.schedule.warmup_steps, end = decay_steps_of(config);
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (config.schedule.name == ScheduleName::constant) return peak;
  if (step >= end) return config.schedule.min_lr;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(end - warmup);
  const double left =
      config.schedule.name == ScheduleName::linear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return config.schedule.min_lr + left * (peak - config.schedule.min_lr);
}

}  // namespace lockstep
