// Costs of a block: FLOPs of its passes, and memory that it keeps from forward to backward. Pure arithmetic on shapes,
// used by the memory model and the simulator. FLOPs of a token for MFU: flops_per_token of
// architecture/architecture.hpp.
#pragma once

#include "architecture/architecture.hpp"
#include "base/rounding.hpp"
#include "layout/sequence.hpp"
#include "program/block_exchange.hpp"
#include "program/model_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// Scratch memory of attention kernels while they run, over all threads.
struct AttentionScratch {
  std::int64_t forward_bytes = 0, backward_bytes = 0;
};

/// Shape of one micro-batch of a rank, or of the ranks that share its rows, and the compute type.
struct BatchShape {
  std::int64_t samples = 1;  // B
  std::int64_t length = 1;   // T
  // Type of activations inside blocks. Statistics and the residual stream are fp32, or fp64 if this is fp64.
  DType compute = DType::f32;
  std::optional<DType> output = {};  // type passed between blocks; not set: the stream's type
  int row_shares = 1;                // ranks that divide the rows of stream and norms
  AttentionScratch attention = {};
  SequenceRanks sequence = {};
  std::int64_t segments = 1;  // most attention segments of a sample
  ExpertSharing experts = {};
  std::int64_t rows() const { return most_rows_of_each(sequence, samples, length, segments); }  // N, of a rank
  std::int64_t own_rows() const { return ceil_div(rows(), std::int64_t{row_shares}); }
  /// The most rows that experts process at once: this rank's own rows or, with expert parallelism, the rows sent to it.
  std::int64_t expert_rows(std::int64_t per_token) const {
    return experts.ranks == 1 ? own_rows() * per_token : rows_at_once(experts, own_rows() * per_token);
  }
};

/// Number of logits that exist at once if they are not kept for backward.
constexpr std::int64_t logits_at_once = std::int64_t{1} << 24;
/// Rows of logits in such a slice.
std::int64_t loss_slice_rows(std::int64_t rows, std::int64_t vocabulary);
/// Up to this size the derivative of logits is kept from forward to backward; beyond it, it is computed again.
constexpr std::int64_t most_kept_logits_bytes = std::int64_t{1} << 30;

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
/// that backward reads: no kept ones, and not the last product of a layer.
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
  std::int64_t output_bytes = 0;        // input of the next block; 8 for the head's loss
  std::int64_t parameter_elements = 0;  // stored in this block, without aliases
  std::int64_t parameter_bytes = 0;     // of these, in the compute type
  // Of a decoder block, by KeepSet::index; without exchanges.
  std::vector<Recomputation> recomputations = {};
};

/// Input and output columns of a weight, which determine its matrix product; weights that are multiplied side by side
/// count as one.
struct LinearShape {
  std::int64_t in = 0, out = 0;
  bool of_stream = false;  // uses rows of the stream; a rank may have only a part
  // Rows of expert products for each row: the number of experts of a token; 0: no expert product.
  std::int64_t per_token = 0;
  bool reads_again = false;  // reads the input of an earlier product of the block
};

/// The matrix products of a block with its weights; those of a shared expert come last. An embedding has none. `layer`
/// is that of a decoder block.
std::vector<LinearShape> linear_layers(const ModelConfig& config, BlockDescription::Kind kind, int layer);

/// The collectives of the ranks that share a block, or its rows, in its passes over one micro-batch (tensor, sequence,
/// context and expert parallelism). `part` is the part of the model that each of these ranks computes. With
/// ForwardFor::text the head gathers the logits of one row only. `layer` is that of a decoder block. Local, pure.
enum class ForwardFor { batch, text };
BlockExchanges exchanges_of(const ModelConfig& part, BlockDescription::Kind kind, const BatchShape& batch,
                            const BlockSharing& sharing, ForwardFor purpose = ForwardFor::batch, int layer = 0);
/// The collectives of a decoder block's repeated forward, if it kept the values of `keeps`.
std::vector<BlockExchange> repeated_exchanges(const ModelConfig& part, const BatchShape& batch,
                                              const BlockSharing& sharing, KeepSet keeps, int layer = 0);

/// Returns the profile of architecture.blocks[block]. Local, pure.
BlockProfile profile(const Architecture& architecture, std::size_t block, const BatchShape& batch);

}  // namespace lockstep
