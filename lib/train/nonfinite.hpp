// Steps whose loss or gradient is not finite. In such a step the engine changes no weight and no moment
// (engine/engine.hpp), unless it updates in backward. This file reports the step and decides when a run ends.
#pragma once

#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "model/model.hpp"
#include "report/record.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

// With train.on_nonfinite: skip, as in torch.amp.GradScaler, the update is skipped, and the optimizer does not count it
// (bias correction). The step itself counts: its samples are consumed, the learning rate follows the step number, and
// the run still ends after its number of steps.

// in a row; bad data rarely causes that many, a run that has diverged always does
constexpr std::int64_t skipped_steps_to_end = 4;

struct SkippedStep {
  std::int64_t step = 0;  // steps done, including this one
  double loss = 0;
  double gradient_norm = 0;
  std::int64_t in_a_row = 1;  // including this one
  bool in_backward = false;   // weights were already updated in backward
  std::string first = {};     // the first value that was not finite, if searched for
};

// In fp16 a gradient that is not finite while the loss is finite has overflowed: the loss scale was too large
// (optim/loss_scale.hpp). Such a step is skipped under any policy, and only precision.min_scale makes it end a run. The
// schedule does not count it either. A loss that is not finite does not depend on the scale, because the loss itself is
// not scaled: then the policy decides, though the scale falls as with GradScaler.

inline bool scales_loss(const TrainConfig& config) { return config.precision.dtype == Precision::fp16; }
bool overflows(const TrainConfig& config, const StepOutcome& outcome);

/// ScaledStep is a step that changes the loss scale.
struct ScaledStep {
  std::int64_t step = 0;  // steps done, including this one
  const StepOutcome& outcome;
  double scale = 1;       // used in this step
  double next_scale = 1;  // used from the next step on
};

/// Returns the event "loss_scale". Local.
EventRecord event_of(const ScaledStep& step);

/// Throws AgreedError(numerics): the scale fell below `least`. Equal on all ranks.
[[noreturn]] void refuse_to_scale(const ScaledStep& step, double least);

/// Returns the event "nonfinite_step". Local.
EventRecord event_of(const SkippedStep& skipped);

/// Throws AgreedError(numerics) on all ranks, naming a tensor, if a weight is not finite after `step` steps. Otherwise
/// every later step would be skipped, and a save would store the value. Collective over `world`.
void require_finite_weights(const Model& model, std::int64_t step, Communicator& world);

/// Throws AgreedError(numerics) on all ranks with policy stop, at the fourth such step in a row (skipped_steps_to_end),
/// and as require_finite_weights does. Collective over `world`.
void refuse_to_go_on(const SkippedStep& skipped, OnNonfinite policy, const Model& model, Communicator& world);

}  // namespace lockstep
