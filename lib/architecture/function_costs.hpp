// Costs of the functions of tensor/functions, one description for each: the memory that a call allocates and frees, in
// order, its matrix products and its exchanges. Pure. Composed in architecture/block_profile.cpp; compared with calls
// in tensor/functions/checked_function.hpp.
#pragma once

#include "architecture/attention_scratch.hpp"
#include "architecture/attention_shape.hpp"
#include "architecture/model_config.hpp"
#include "base/rounding.hpp"
#include "layout/dtype.hpp"
#include "layout/sequence.hpp"
#include "program/block_exchange.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// Bytes that a pass allocates (positive) and frees (negative), in order. Left out: its arguments, metadata of the
/// batch, weights and their gradients, and a few numbers for each row.
using MemorySteps = std::vector<std::int64_t>;
/// The most that is live at a time.
std::int64_t most_of(const MemorySteps& steps);
/// Remains at the end.
std::int64_t left_by(const MemorySteps& steps);

/// The columns of a product with weights, x (rows, in) · W (in, out); weights that are multiplied side by side count as
/// one.
struct MatrixProduct {
  std::int64_t rows = 0, in = 0, out = 0;
  double flops() const { return 2 * static_cast<double>(rows * in) * static_cast<double>(out); }
};

/// The costs of one call. A call whose result is known from an earlier pass allocates nothing in forward.
struct FunctionCosts {
  std::vector<std::int64_t> results = {};  // bytes of each
  // Leaves the results, and with autograd also values that only backward reads.
  MemorySteps forward = {};
  std::vector<std::int64_t> gradients = {};  // bytes of the gradients that backward makes, by argument
  // Leaves these gradients. It may free values that forward left; those that remain live until the block's backward
  // has ended.
  MemorySteps backward = {};
  bool at_most = false;  // memory is an upper bound: the routing of tokens decides it
  // Backward reads the gradient that its argument has from other calls, and adds its own to it.
  bool joins_gradients = false;
  // With weights: computed in forward, and in backward for the gradients of both the input and the weights.
  std::vector<MatrixProduct> products = {};
  // Kept for the products of weight gradients when these are deferred: tensors of backward, and maybe the argument.
  std::int64_t deferred_bytes = 0;
  bool defers_argument = false;
  double forward_flops = 0, backward_flops = 0;  // of products without weights
  std::vector<BlockExchange> forward_exchanges = {}, backward_exchanges = {};
  std::vector<BlockExchange> known_exchanges = {};  // of a forward with a known result
};

/// The type of statistics, sums and the residual stream: fp32, or fp64 in fp64.
constexpr DType wide_type(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }

/// The rows of a call, their types, and the ranks with which this rank shares the block.
struct CallRows {
  std::int64_t all = 0;  // N: rows that a matrix reads
  DType compute = DType::f32;
  BlockSharing sharing = {};
  std::int64_t own() const { return ceil_div(all, std::int64_t{sharing.row_shares()}); }  // of the residual stream
  DType wide_dtype() const { return wide_type(compute); }
  // Bytes of so many columns, of all rows or of the own ones, in the compute type or in the wide one.
  std::int64_t narrow(std::int64_t columns) const { return all * columns * size_of(compute); }
  std::int64_t wide(std::int64_t columns) const { return all * columns * size_of(wide_dtype()); }
  std::int64_t own_narrow(std::int64_t columns) const { return own() * columns * size_of(compute); }
  std::int64_t own_wide(std::int64_t columns) const { return own() * columns * size_of(wide_dtype()); }
};

/// Conversion between the type of the residual stream and that of a block's output.
FunctionCosts cast_costs(std::int64_t from_bytes, std::int64_t to_bytes);
FunctionCosts embedding_costs(const CallRows& rows, std::int64_t channels, double dropout);
FunctionCosts norm_costs(const CallRows& rows, std::int64_t channels, Norm norm);
/// The products of weights that are not adjacent add up in `parts`.
FunctionCosts linear_costs(const CallRows& rows, std::int64_t in, std::int64_t out, std::int64_t parts = 1);
FunctionCosts add_linear_costs(const CallRows& rows, std::int64_t in, std::int64_t out, double dropout);
FunctionCosts head_norm_costs(const CallRows& rows, const AttentionShape& shape);

/// The exchanges along ulysses; `rows` are those of this rank, `shape` has the heads of all `ranks`.
FunctionCosts to_own_heads_costs(const CallRows& rows, const AttentionShape& shape, std::int64_t ranks);
FunctionCosts to_own_rows_costs(const CallRows& rows, const AttentionShape& shape);
/// Attention to `keys` keys for each query, with own heads and all rows of the ranks along ulysses. Results: the
/// output, and the logarithms of the softmax sums.
FunctionCosts attention_costs(const CallRows& rows, const AttentionShape& shape, std::int64_t keys = 0,
                              const AttentionScratch& scratch = {}, const SequenceRanks& ranks = {});

/// Attention of rows of texts over their cache, to `keys` keys each. Without autograd.
FunctionCosts cached_attention_costs(const CallRows& rows, const AttentionShape& shape, std::int64_t keys,
                                     std::int64_t scratch_bytes);

/// An activation function of `raised` bytes, with or without gates of rows.
FunctionCosts activation_costs(std::int64_t raised, std::int64_t activated, std::int64_t row_gates = 0);

/// Results: weights, chosen experts, places of rows and offsets. `aux_axes`: ranks that balance the `samples` together.
FunctionCosts router_costs(const CallRows& rows, std::int64_t channels, const Experts& experts,
                           const std::vector<AxisName>& aux_axes = {}, std::int64_t samples = 0);
/// `given`: rows that go to experts, one for each expert of each token.
FunctionCosts dispatch_costs(const CallRows& rows, std::int64_t channels, std::int64_t given);
FunctionCosts combine_costs(const CallRows& rows, std::int64_t channels, std::int64_t per_token, std::int64_t given,
                            double dropout);
/// Products of these rows, each with the weights of its expert.
FunctionCosts grouped_linear_costs(const MatrixProduct& product, DType compute);

/// A call of expert parallelism.
struct ParallelExpertsCall {
  std::int64_t ranks = 1, experts = 0;  // of all ranks
  std::int64_t channels = 0, feed_forward = 0;
  std::int64_t given = 0;           // rows that this rank sends to experts
  std::int64_t taken = 0;           // rows that its experts take in a round, at most
  std::int64_t further_rounds = 0;  // beyond the first, at most
};
FunctionCosts expert_table_costs(const ParallelExpertsCall& call);
/// FirstRound says which values of the first round the forward leaves; the input of the activation as a second result.
enum class FirstRound { left_to_backward, raised_as_result, freed };
/// The rounds of experts, with the dispatch of rows to them.
FunctionCosts parallel_experts_costs(const CallRows& rows, const ParallelExpertsCall& call, FirstRound first);

/// Number of logits that exist at once if they are not kept for backward.
constexpr std::int64_t logits_at_once = std::int64_t{1} << 24;
/// Rows of logits in such a slice.
std::int64_t loss_slice_rows(std::int64_t rows, std::int64_t vocabulary);
/// Up to this size the derivative of logits is kept from forward to backward; beyond it, it is computed again.
constexpr std::int64_t most_kept_logits_bytes = std::int64_t{1} << 30;
/// The loss from the norm's output. Logits of a row take the memory of `columns`. With `most_kept_bytes` 0, as without
/// autograd, nothing is kept.
FunctionCosts loss_costs(const CallRows& rows, std::int64_t channels, std::int64_t vocabulary, std::int64_t columns,
                         std::int64_t most_kept_bytes);
/// The logits of one row of each of `texts` texts, from the block's input in the type `output`. Without autograd.
FunctionCosts text_logits_costs(const CallRows& rows, std::int64_t texts, std::int64_t channels,
                                std::int64_t vocabulary, std::int64_t columns, DType output);

}  // namespace lockstep
