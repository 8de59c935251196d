#include "train/meter.hpp"

#include <algorithm>

namespace lockstep {

void Meter::count(std::int64_t tokens, double data_wait_s) {
  ++steps_;
  tokens_ += tokens;
  data_wait_s_ += data_wait_s;
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
