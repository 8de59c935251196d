// Dynamic loss scaling for fp16: the gradient of the loss is multiplied by a scale, so that small gradients do not
// vanish and large ones do not overflow. It follows torch.amp.GradScaler (Micikevicius et al. 2018, Mixed Precision
// Training). engine/engine.hpp applies it; its state belongs to train/train_state.hpp.
#pragma once

#include <cstdint>

namespace lockstep {

struct LossScaleOptions;

struct LossScale {
  double scale = 1;             // 1: no loss scaling
  std::int64_t good_steps = 0;  // steps since the last change, all with finite gradients
  std::int64_t overflows = 0;   // steps skipped because gradients of a finite loss overflowed
};

/// Returns the state after a step, with a new scale and good_steps. After growth_interval steps with finite gradients
/// the scale grows, unless it would leave the range of fp32. A step without finite gradients reduces it. The scale is
/// rounded to fp32, as in GradScaler. Pure.
LossScale after_step(LossScale now, const LossScaleOptions& options, bool finite_gradients);

}  // namespace lockstep
