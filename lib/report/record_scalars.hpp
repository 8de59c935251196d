// Names the numbers of a record for TensorBoard and W&B.
#pragma once

#include "base/json_fwd.hpp"

namespace lockstep {

/// Maps names to numbers: "train/loss": 2.5, "train/learning_rate", "eval/loss", as the Trainer of transformers names
/// them. `record` is a record as JSON; all of its numbers are included except the step. An evaluation of a named
/// dataset gives "eval/NAME_loss". Statistics give "weights/norm" and for each tensor "weights/TENSOR/norm", without
/// the number of elements. Local.
Json scalars_of(const Json& record);

}  // namespace lockstep
