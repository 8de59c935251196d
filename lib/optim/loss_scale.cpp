#include "optim/loss_scale.hpp"

#include "config/train_config.hpp"

#include <cmath>

namespace lockstep {

namespace {

double times(double scale, double factor) { return static_cast<double>(static_cast<float>(scale * factor)); }

}  // namespace

LossScale after_step(LossScale now, const LossScaleOptions& options, bool finite_gradients) {
  if (!finite_gradients) {
    now.scale = times(now.scale, options.backoff_factor);
    now.good_steps = 0;
    return now;
  }
  if (++now.good_steps < options.growth_interval) return now;
  const double grown = times(now.scale, options.growth_factor);
  if (std::isfinite(grown)) now.scale = grown;
  now.good_steps = 0;
  return now;
}

}  // namespace lockstep
