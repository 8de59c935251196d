// The numbers of a record, under the names that TensorBoard and W&B show them by.
#pragma once

#include "base/json_fwd.hpp"

namespace lockstep {

/// "step/loss": 2.5, … of a record as JSON: all of its numbers but the step; of an evaluation of a named set
/// "eval/NAME/loss"; of statistics "weights/norm" and by tensor "weights/TENSOR/norm". Local.
Json scalars_of(const Json& record);

}  // namespace lockstep
