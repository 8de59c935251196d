#include "train/save_clock.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

double least_loss_interval(double cost_s, double mtbf_s) {
  if (cost_s >= 2 * mtbf_s) return std::max(cost_s, mtbf_s);
  const double part = cost_s / (2 * mtbf_s);
  const double interval = std::sqrt(2 * cost_s * mtbf_s) * (1 + std::sqrt(part) / 3 + part / 9) - cost_s;
  return std::max(interval, cost_s);
}

SaveClock::SaveClock(const CheckpointOptions& options, double now_s) : mtbf_s_(options.mtbf.value), last_s_(now_s) {
  follow(options);
}

void SaveClock::follow(const CheckpointOptions& options) {
  interval_ = options.every.time.value > 0 ? SaveInterval{.time = options.every.time} : options.interval;
}

double SaveClock::interval_s() const {
  constexpr double first_s = 300;
  if (!interval_->automatic) return interval_->time.value;
  return longest_save_s_ == 0 ? first_s : least_loss_interval(longest_save_s_, mtbf_s_);
}

bool SaveClock::due(double now_s) const { return interval_ && now_s - last_s_ >= interval_s(); }

void SaveClock::save_ended(double seconds, double now_s) {
  longest_save_s_ = std::max(longest_save_s_, seconds);
  last_s_ = now_s;
}

}  // namespace lockstep
