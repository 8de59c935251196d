// Token embeddings, with learned position embeddings where the model has them; vocabulary-parallel with a lane.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/dropout.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// dropout(token_table[tokens] + position_table[positions]) (N, C) in `type` (fp32 or fp64); `position_table` nullptr:
/// tokens alone. Indices int32 (N), inside their tables. Autograd records it whenever grad mode is on, although no
/// input needs a gradient. The ranks of `lane` hold parts of the token table and sum their rows, so the call is
/// Collective over them; nullptr: this rank holds the whole table.
at::Tensor embed(Parameter& token_table, Parameter* position_table, const at::Tensor& tokens,
                 const at::Tensor& positions, at::ScalarType type, const BlockLane* lane = nullptr,
                 const Dropout& dropout = {});

}  // namespace lockstep
