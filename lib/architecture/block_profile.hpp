// Costs of a block: FLOPs of its passes, memory that it keeps from forward to backward, and its exchanges. Pure
// arithmetic on shapes, used by the memory model and the simulator. It plays the calls of model/block.cpp with their
// descriptions in architecture/function_costs.hpp. FLOPs of a token for MFU: flops_per_token of
// architecture/architecture.hpp.
#pragma once

#include "architecture/architecture.hpp"
#include "architecture/function_costs.hpp"
#include "base/rounding.hpp"
#include "layout/sequence.hpp"
#include "program/block_exchange.hpp"
#include "program/model_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// Texts that a model continues together. A pass takes some rows of each: parts of prompts, or one token.
struct TextShape {
  std::int64_t texts = 1;
  std::int64_t piece = 1;      // most rows of a text in a pass
  std::int64_t positions = 1;  // most positions of a text
  bool operator==(const TextShape&) const = default;
};
/// The number of positions of a text whose keys and values a layer keeps. With a window (not 0) it keeps the positions
/// that a pass still reads.
std::int64_t cached_positions(std::int64_t window, const TextShape& texts);

/// Shape of one micro-batch of a rank, or of the ranks that share its rows, and the compute type.
struct BatchShape {
  std::int64_t samples = 1;  // B
  std::int64_t length = 1;   // T
  // Type of activations inside blocks. Statistics and the residual stream are fp32, or fp64 if this is fp64.
  DType compute = DType::f32;
  std::optional<DType> output = {};  // type passed between blocks; not set: the stream's type
  BlockSharing sharing = {};         // the ranks that compute the block together
  int threads = 0;                   // that run kernels with scratch memory of their own
  int multiprocessors = 0;           // of an NVIDIA GPU, which has no such threads; 0: another device
  SequenceRanks sequence = {};
  std::int64_t segments = 1;  // most attention segments of a sample
  // A pass over texts instead, of `samples` texts with at most `length` rows each.
  std::optional<TextShape> texts = {};
  std::int64_t rows() const { return most_rows_of_each(sequence, samples, length, segments); }  // N, of a rank
  std::int64_t own_rows() const { return ceil_div(rows(), std::int64_t{sharing.row_shares()}); }
  /// The most rows that experts process at once: this rank's own rows or, with expert parallelism, the rows sent to it.
  std::int64_t expert_rows(std::int64_t per_token) const {
    const ExpertSharing& experts = sharing.experts;
    return experts.ranks == 1 ? own_rows() * per_token : rows_at_once(experts, own_rows() * per_token);
  }
};

/// Costs of one block for one micro-batch.
///
/// FLOPs count only matrix products, a multiplication and an addition as 2. Causal attention counts attended_keys for
/// each query, as flops_per_token does, so that the sums of both agree.
///
/// Bytes are those of tensors, as tensor/functions allocates and frees them. Saved are the inputs of each norm (with
/// its statistics, one per row for RMSNorm, two for LayerNorm), of each matrix product and of the activation; q, k, v
/// (also before norms of their own); and the attention's output with its row sums (N, H). Experts also save their
/// outputs, the router's probabilities, the places of rows (their size does not depend on how evenly tokens spread),
/// and a gate for each row of the shared expert. The head saves the gradient of the logits (N, V), which the loss
/// stores in place of the logits.
///
/// A workspace is the most memory that a pass uses besides its inputs, saved tensors and outputs. Not counted: batch
/// metadata, weights, partial sums of the gradients of norms and biases. A repeated forward computes only the values
/// that backward reads: no kept ones, and not the last product of a layer. Exchanges are those of the ranks that share
/// the block or its rows (tensor, sequence, context and expert parallelism).
struct BlockProfile {
  double forward_flops = 0;
  double backward_input_flops = 0;
  double backward_weight_flops = 0;
  std::int64_t input_bytes = 0;  // input from the previous block
  // Kept from forward to backward without recomputation, the input included.
  std::int64_t saved_bytes = 0;
  // Kept from backward-input to backward-weight when they are split: input and output gradient of each matrix product
  // with a weight.
  std::int64_t deferred_bytes = 0;
  std::int64_t forward_workspace_bytes = 0;
  std::int64_t inference_workspace_bytes = 0;  // of a forward that saves nothing
  std::int64_t backward_workspace_bytes = 0;
  std::int64_t output_bytes = 0;                   // input of the next block; 8 for the head's loss
  std::int64_t parameter_elements = 0;             // stored in this block, without aliases
  std::int64_t parameter_bytes = 0;                // of these, in the compute type
  BlockExchanges exchanges = {};                   // without those of a recomputation
  std::vector<MatrixProduct> products = {};        // with weights, in the order of the calls
  std::vector<Recomputation> recomputations = {};  // of a decoder block, by KeepSet::index
  std::int64_t cache_bytes = 0;                    // of a decoder block, for texts
};

/// Returns the profile of architecture.blocks[block]. With tensor parallelism the architecture's config is the part
/// that each rank computes. For a pass over texts it is the profile of a forward: nothing is kept, attention reads a
/// cache, the head computes the logits of one row of each text, and experts are not balanced. Local, pure.
BlockProfile profile(const Architecture& architecture, std::size_t block, const BatchShape& batch);

}  // namespace lockstep
