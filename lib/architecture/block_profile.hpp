// What a block costs: FLOPs of its passes and the bytes that it keeps from forward to backward. Pure arithmetic on
// shapes, the input of the memory model and the simulator; what a whole token costs for mfu is flops_per_token of
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

/// Scratch memory that kernels use while attention runs, on all threads.
struct AttentionScratch {
  std::int64_t forward_bytes = 0, backward_bytes = 0;
};

/// One micro-batch of one rank, or of those that share its rows, and the type that kernels compute in.
struct BatchShape {
  std::int64_t samples = 1;    // B
  std::int64_t length = 1;     // T
  DType compute = DType::f32;  // of activations inside blocks; statistics and the residual stream are fp32, or fp64
                               // where this is
  std::optional<DType> output = {};  // of what passes between blocks; absent: the stream's
  int row_shares = 1;                // ranks that have the rows of the stream and of norms between them
  AttentionScratch attention = {};
  SequenceRanks sequence = {};
  std::int64_t segments = 1;  // of a sample, which attention keeps apart, at most
  ExpertSharing experts = {};
  std::int64_t rows() const { return most_rows_of_each(sequence, samples, length, segments); }  // N, of a rank
  std::int64_t own_rows() const { return divided_up(rows(), std::int64_t{row_shares}); }
  /// That experts of a rank have at once, at most: of the rank's own, or of those that share them out.
  std::int64_t expert_rows(std::int64_t per_token) const {
    return experts.ranks == 1 ? own_rows() * per_token : rows_at_once(experts, own_rows() * per_token);
  }
};

/// Logits of so many values exist at once where they are not kept for backward.
constexpr std::int64_t logits_at_once = std::int64_t{1} << 24;
/// Rows of them in a slice.
std::int64_t loss_slice_rows(std::int64_t rows, std::int64_t vocabulary);
/// The derivative of logits is kept from forward to backward up to this size, and computed again beyond.
constexpr std::int64_t most_kept_logits_bytes = std::int64_t{1} << 30;

/// FLOPs count a multiplication and an addition of every matrix product as 2 and nothing else; causal attention counts
/// attended_keys for each query, as flops_per_token does, so that the sums of both agree. Bytes are those of tensors,
/// as they come and go in tensor/functions. Saved are the input of each norm (with its statistics, one a row for
/// RMSNorm, two for LayerNorm), of each matrix product and of the activation; q, k, v (also before norms of their own)
/// and the attention's output with its row sums (N, H); of experts also their outputs, the router's probabilities and
/// where rows go, which is the same however evenly tokens spread, and a gate for each row of the shared one; the final
/// logits' gradient (N, V), which the loss leaves in place of the logits. A workspace is the most that a pass has
/// beside what it was given, what it keeps and what it gives. Not counted: batch metadata, weights, partial sums of the
/// gradients of norms and biases. A repeated forward computes what backward reads: not what was kept, nor the product
/// that ends a layer.
struct BlockProfile {
  double forward_flops = 0;
  double backward_input_flops = 0;
  double backward_weight_flops = 0;
  std::int64_t input_bytes = 0;     // what arrives from the block before
  std::int64_t saved_bytes = 0;     // kept from forward to backward without recompute, the input included
  std::int64_t deferred_bytes = 0;  // kept from backward-input to backward-weight where these are parted: input and
                                    // output gradient of each matrix product with a weight
  std::int64_t forward_workspace_bytes = 0;
  std::int64_t inference_workspace_bytes = 0;  // of a forward that saves nothing
  std::int64_t backward_workspace_bytes = 0;
  std::int64_t output_bytes = 0;                   // what the next block receives; 8 for the head's loss
  std::int64_t parameter_elements = 0;             // stored in this block, aliases left out
  std::int64_t parameter_bytes = 0;                // the same in the compute type
  std::vector<Recomputation> recomputations = {};  // of a decoder block, by KeepSet::index; without exchanges
};

/// Columns of a weight's input and output, by which its matrix product has its size; weights that are multiplied side
/// by side are one.
struct LinearShape {
  std::int64_t in = 0, out = 0;
  bool of_stream = false;      // with rows of the stream, of which a rank may have a share
  std::int64_t per_token = 0;  // rows of each of these: of experts as many as a token goes to; 0: it is of no experts
  bool reads_again = false;    // what an earlier product of the block read
};

/// The matrix products of a block with its weights, those of a shared expert last; an embedding has none. `layer` is of
/// a decoder block.
std::vector<LinearShape> linear_layers(const HfConfig& config, BlockDescription::Kind kind, int layer);

/// What ranks that share a block, or its rows, say to each other in its passes over one micro-batch; `part` is what
/// each computes of blocks that are shared so. Of a text the head gathers the logits of one row. `layer` is of a
/// decoder block. Local, pure.
enum class ForwardFor { batch, text };
BlockExchanges exchanges_of(const HfConfig& part, BlockDescription::Kind kind, const BatchShape& batch,
                            const BlockSharing& sharing, ForwardFor purpose = ForwardFor::batch, int layer = 0);
/// Those that a decoder block which kept such values says when its forward is repeated.
std::vector<BlockExchange> repeated_exchanges(const HfConfig& part, const BatchShape& batch,
                                              const BlockSharing& sharing, KeepSet keeps, int layer = 0);

/// The profile of architecture.blocks[block]. Local, pure.
BlockProfile profile(const Architecture& architecture, std::size_t block, const BatchShape& batch);

}  // namespace lockstep
