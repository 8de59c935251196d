// What a block costs: FLOPs of its passes and the bytes that it keeps from forward to backward. Pure arithmetic on
// shapes, the input of the memory model and the simulator; what a whole token costs for mfu is flops_per_token of
// architecture/architecture.hpp.
#pragma once

#include "architecture/architecture.hpp"

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// One micro-batch on one rank, and the type its activations have.
struct BatchShape {
  std::int64_t samples = 1;   // B
  std::int64_t length = 1;    // T
  DType stream = DType::f32;  // of activations between and inside blocks
};

/// FLOPs count a multiplication and an addition of every matrix product as 2 and nothing else; causal attention counts
/// the full T×T square, as flops_per_token does, so that the sums of both agree. Saved bytes count, in the stream type
/// unless said: the input of each norm (with fp32 statistics, one a row for RMSNorm, two for LayerNorm), of each matrix
/// product and of the activation; q, k, v after rotation and the attention's output with its fp32 row sums (B, H, T);
/// the final logits' gradient (B·T, V), which the loss leaves in place of the logits. Not counted: batch metadata,
/// weights, workspaces of kernels that do not outlive a pass.
struct BlockProfile {
  double forward_flops = 0;
  double backward_input_flops = 0;
  double backward_weight_flops = 0;
  double recompute_flops = 0;       // added to backward when the block is recomputed: its forward again
  std::int64_t input_bytes = 0;     // what arrives from the block before; all that is kept with recompute
  std::int64_t saved_bytes = 0;     // kept from forward to backward without recompute, the input included
  std::int64_t deferred_bytes = 0;  // kept from backward-input to backward-weight where these are parted: input and
                                    // output gradient of each matrix product with a weight
  std::int64_t workspace_bytes =
      0;  // gradients inside the block while its backward runs: the wider of attention and MLP, twice C
  std::int64_t output_bytes = 0;        // what the next block receives; 8 for the head's loss
  std::int64_t parameter_elements = 0;  // stored in this block, aliases left out
  std::int64_t parameter_bytes = 0;     // the same in the stream type
};

/// The profile of architecture.blocks[block]. Local, pure.
BlockProfile profile(const Architecture& architecture, std::size_t block, const BatchShape& batch);

}  // namespace lockstep
