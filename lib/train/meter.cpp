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

TimedSteps operator+(const TimedSteps& a, const TimedSteps& b) {
  if (a.steps == 0) return b;
  if (b.steps == 0) return a;
  const bool known = a.peak_flops && b.peak_flops;
  return {.steps = a.steps + b.steps,
          .samples = a.samples + b.samples,
          .tokens = a.tokens + b.tokens,
          .seconds = a.seconds + b.seconds,
          .peak_flops = known ? std::optional(*a.peak_flops + *b.peak_flops) : std::nullopt};
}

TimedSteps Meter::timed() const {
  const std::int64_t steps = steps_counted_ - settings_.speed_from_step + 1;
  if (steps <= 0) return {};
  TimedSteps timed{.steps = steps,
                   .samples = speed_samples_,
                   .tokens = speed_tokens_,
                   .seconds = std::max(speed_s_ - speed_excluded_s_, 1e-9),
                   .peak_flops = {}};
  if (settings_.peak_flops_per_s) timed.peak_flops = timed.seconds * *settings_.peak_flops_per_s;
  return timed;
}

std::optional<Meter::Speed> Meter::speed_of(const TimedSteps& timed) const {
  if (timed.steps == 0) return std::nullopt;
  const double flops = static_cast<double>(timed.tokens) * settings_.flops_per_token;
  return Speed{.steps_per_s = static_cast<double>(timed.steps) / timed.seconds,
               .samples_per_s = static_cast<double>(timed.samples) / timed.seconds,
               .tokens_per_s = static_cast<double>(timed.tokens) / timed.seconds,
               .flops_per_s = flops / timed.seconds,
               .mfu = timed.peak_flops ? std::optional(flops / *timed.peak_flops) : std::nullopt};
}

Meter::Reading Meter::read(double now_s, std::int64_t steps_done) {
  const double seconds = std::max(now_s - since_s_ - excluded_s_, 1e-9);
  Reading reading;
  if (steps_ > 0) {
    reading.step_ms = seconds * 1e3 / static_cast<double>(steps_);
    reading.data_wait_ms = data_wait_s_ * 1e3 / static_cast<double>(steps_);
    reading.samples_per_s = static_cast<double>(samples_ - samples_read_) / seconds;
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
  samples_read_ = samples_;
  tokens_ = 0;
  return reading;
}

}  // namespace lockstep
