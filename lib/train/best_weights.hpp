// The weights that a run shows at its end: those of its best checkpoint, by what checkpoint.best_metric says.
#pragma once

#include "train/loop_parts.hpp"

#include <cstdint>

namespace lockstep {

/// Fills the model with the weights of the best checkpoint of the run, and leaves all else as it is; the step of that
/// checkpoint. No save is under way. Collective over the world. Throws what resume throws (checkpoint/resume.hpp).
std::int64_t load_best_weights(const LoopParts& parts);

}  // namespace lockstep
