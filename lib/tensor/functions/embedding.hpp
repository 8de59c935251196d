// Token embeddings, with learned position embeddings where the model has them.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/dropout.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// What `dropout` leaves of tokens[tokens] + positions[positions] (N, C) in `type` (fp32 or fp64); `position_table`
/// null: tokens alone. Indices int32 (N), inside their tables. Recorded by autograd whenever grad mode is on, though it
/// has no input that needs a gradient. Ranks of `lane` have parts of the token table, whose rows they sum; null: this
/// rank has all of it.
at::Tensor embed(Parameter& token_table, Parameter* position_table, const at::Tensor& tokens,
                 const at::Tensor& positions, at::ScalarType type, const BlockLane* lane = nullptr,
                 const Dropout& dropout = {});

}  // namespace lockstep
