// The loss scale of training in fp16: what the loss's gradient is multiplied with, so that small gradients do not
// vanish and large ones do not overflow. It goes the way of torch.amp.GradScaler (Micikevicius et al. 2018, Mixed
// Precision Training). What applies it: engine/engine.hpp; whose state it is: train/train_state.hpp.
#pragma once

#include <cstdint>

namespace lockstep {

struct LossScaleOptions;

struct LossScale {
  double scale = 1;             // 1 where there is none
  std::int64_t good_steps = 0;  // since it changed, all with finite gradients
  std::int64_t overflows = 0;   // steps that were skipped because gradients overflowed, of a finite loss
};

/// What becomes of its scale and good_steps with a step. After growth_interval steps with finite gradients it grows,
/// unless it left the range of fp32; after each other it falls. Rounded to fp32, as GradScaler's. Pure.
LossScale after_step(LossScale now, const LossScaleOptions& options, bool finite_gradients);

}  // namespace lockstep
