// Loads the weights of a run's best checkpoint at its end, as checkpoint.best_metric ranks them.
#pragma once

#include "train/loop_parts.hpp"

#include <cstdint>

namespace lockstep {

/// Loads the weights of the run's best checkpoint into the model, changes nothing else, and returns the step of that
/// checkpoint. No save may be under way. Collective over the world. Throws as resume does (checkpoint/resume.hpp).
std::int64_t load_best_weights(const LoopParts& parts);

}  // namespace lockstep
