#include "train/meter.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

void Meter::count(double now_s, std::int64_t samples, std::int64_t tokens, double data_wait_s) {
  ++steps_;
  tokens_ += tokens;
  data_wait_s_ += data_wait_s;
  ++steps_counted_;
  samples_ += samples;
  const double excluded_s = std::exchange(excluded_since_step_s_, 0);
  if (steps_counted_ < settings_.speed_from_step) {
    speed_since_s_ = now_s;
    return;
  }
  speed_s_ = now_s - speed_since_s_;
  speed_excluded_s_ += excluded_s;
  speed_samples_ += samples;
  speed_tokens_ += tokens;
}

std::optional<Meter::Speed> Meter::speed() const {
  const std::int64_t steps = steps_counted_ - settings_.speed_from_step + 1;
  if (steps <= 0) return std::nullopt;
  const double seconds = std::max(speed_s_ - speed_excluded_s_, 1e-9);
  Speed speed{.steps_per_s = static_cast<double>(steps) / seconds,
              .samples_per_s = static_cast<double>(speed_samples_) / seconds,
              .tokens_per_s = static_cast<double>(speed_tokens_) / seconds,
              .flops_per_s = static_cast<double>(speed_tokens_) / seconds * settings_.flops_per_token,
              .mfu = {}};
  if (settings_.peak_flops_per_s) speed.mfu = speed.flops_per_s / *settings_.peak_flops_per_s;
  return speed;
}

Meter::Reading Meter::read(double now_s, std::int64_t steps_done) {
  const double seconds = std::max(now_s - since_s_ - excluded_s_, 1e-9);
  Reading reading;
  if (steps_ > 0) {
    reading.step_ms = seconds * 1e3 / static_cast<double>(steps_);
    reading.data_wait_ms = data_wait_s_ * 1e3 / static_cast<double>(steps_);
    reading.tokens_per_s = static_cast<double>(tokens_) / seconds;
    if (settings_.peak_flops_per_s)
      reading.mfu = reading.tokens_per_s * settings_.flops_per_token / *settings_.peak_flops_per_s;
    reading.eta_s =
        static_cast<double>(std::max<std::int64_t>(settings_.last_step - steps_done, 0)) * reading.step_ms / 1e3;
  }
  since_s_ = now_s;
  excluded_s_ = 0;
  data_wait_s_ = 0;
  steps_ = 0;
  tokens_ = 0;
  return reading;
}

}  // namespace lockstep
