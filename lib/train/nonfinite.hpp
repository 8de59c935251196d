// Steps whose loss or gradient is not finite. The engine has changed no weight and no moment by them
// (engine/engine.hpp), unless it updates in backward; here is what a run says of such a step, and when it does not go
// on.
#pragma once

#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "model/model.hpp"
#include "report/record.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

// What train.on_nonfinite: skip means, beside torch.amp.GradScaler: the update is left out, and the optimizer does not
// count it (bias corrections). The step itself counts: its samples are used up, the learning rate follows the step
// number, the number of its steps bounds the run.

constexpr std::int64_t skipped_steps_to_end =
    4;  // in a row: data rarely fails so often, a run that has diverged always does

struct SkippedStep {
  std::int64_t step = 0;  // steps done, this one included
  double loss = 0;
  double gradient_norm = 0;
  std::int64_t in_a_row = 1;  // this one included
  bool in_backward = false;   // weights were updated before this was known
  std::string first = {};     // that was not finite, if it was looked for
};

// In fp16 a gradient that is not finite where the loss is finite has overflowed: its loss scale was too large
// (optim/loss_scale.hpp). Such a step is skipped whatever the policy, and ends a run only by precision.min_scale. The
// schedule does not count it either. A loss that is not finite has nothing to do with the scale, which the loss itself
// is not multiplied with: the policy decides, though the scale falls as GradScaler's would.

inline bool scales_loss(const TrainConfig& config) { return config.precision.dtype == Precision::fp16; }
bool overflows(const TrainConfig& config, const StepOutcome& outcome);

/// A step after which the loss scale is another.
struct ScaledStep {
  std::int64_t step = 0;  // steps done, this one included
  const StepOutcome& outcome;
  double scale = 1;       // that it was computed with
  double next_scale = 1;  // from here on
};

/// The event "loss_scale". Local.
EventRecord event_of(const ScaledStep& step);

/// Throws AgreedError(numerics): the scale fell below `least`. The same on all ranks.
[[noreturn]] void refuse_to_scale(const ScaledStep& step, double least);

/// The event "nonfinite_step". Local.
EventRecord event_of(const SkippedStep& skipped);

/// Throws AgreedError(numerics) on all ranks, naming a tensor, if a weight is not finite after `step` steps: from then
/// on every step would be skipped, and a save would keep it. Collective over `world`.
void require_finite_weights(const Model& model, std::int64_t step, Communicator& world);

/// Throws AgreedError(numerics) on all ranks with policy stop, at the fourth such step in a row, and as
/// require_finite_weights. Collective over `world`.
void refuse_to_go_on(const SkippedStep& skipped, OnNonfinite policy, const Model& model, Communicator& world);

}  // namespace lockstep
