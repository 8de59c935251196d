#include "architecture/block_profile.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <iterator>

namespace lockstep {

namespace {

constexpr std::int64_t loss_bytes = 8;

DType stream_type(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }

/// The most that is live while tensors come and go.
class Live {
 public:
  Live& add(std::int64_t bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
    return *this;
  }
  Live& drop(std::int64_t bytes) {
    now_ -= bytes;
    return *this;
  }
  /// Beside `held`, which is among what was added.
  std::int64_t beside(std::int64_t held) const { return std::max<std::int64_t>(0, most_ - held); }

 private:
  std::int64_t now_ = 0, most_ = 0;
};

/// Of queries, keys and values, of all ranks along ulysses together: neighbours may have the same key heads.
std::int64_t exchanged_columns(const ModelConfig& config, std::int64_t ranks) {
  return (config.heads + 2 * std::max(config.kv_heads, ranks)) * config.head_size;
}

/// Of keys and values that go around the ring, likewise.
std::int64_t ring_columns(const ModelConfig& config, std::int64_t ranks) {
  return 2 * std::max(config.kv_heads, ranks) * config.head_size;
}

/// The bytes of tensors with a row for each token, and of those with the rows that this rank has of a stream that ranks
/// share out.
struct Sizes {
  Sizes(const ModelConfig& config, const BatchShape& batch)
      : rows(batch.rows()),
        own_rows(batch.own_rows()),
        compute(rows * size_of(batch.compute)),
        wide(rows * size_of(stream_type(batch.compute))),
        stream(batch.own_rows() * size_of(stream_type(batch.compute)) * config.channels),
        normalised(batch.own_rows() * size_of(batch.compute) * config.channels),
        own_compute(batch.own_rows() * size_of(batch.compute)),
        own_wide(batch.own_rows() * size_of(stream_type(batch.compute))),
        handed(batch.own_rows() * size_of(batch.output.value_or(stream_type(batch.compute))) * config.channels),
        widened(batch.output.value_or(stream_type(batch.compute)) == stream_type(batch.compute) ? 0 : stream),
        cast(widened > 0 ? handed : 0),
        rounded(batch.compute == stream_type(batch.compute) ? 0 : normalised),
        statistics(batch.own_rows() * size_of(stream_type(batch.compute)) * (config.norm == Norm::layer_norm ? 2 : 1)),
        gathered(batch.row_shares == 1 ? 0 : compute * config.channels),
        product(batch.row_shares == 1 ? 0 : wide * config.channels) {}

  std::int64_t rows, own_rows;
  std::int64_t compute, wide;  // a column in the compute type, and in that of the stream
  std::int64_t stream;         // the residual stream
  std::int64_t normalised;
  std::int64_t own_compute, own_wide;  // columns of the rows of these
  std::int64_t handed;                 // what passes between blocks
  std::int64_t widened, cast;          // where that has another type: its copy in the stream's, and what is cast back
  std::int64_t rounded;                // a gradient of the stream in the compute type, where that is another
  std::int64_t statistics;             // of a norm
  // Of a stream that ranks share out: all rows of what a matrix reads, and what it adds to all rows.
  std::int64_t gathered, product;
};

/// Of what lies between the second norm of a decoder layer and its output.
struct FeedForwardSizes {
  std::int64_t raised = 0, activated = 0;  // before and behind the activation
  std::int64_t saved = 0;                  // beside norm and stream
  std::int64_t inference = 0;              // the most, without autograd
  std::int64_t keeping = 0;                // the same where what experts' products give is kept
  std::int64_t row_gates = 0;              // among what is saved
  std::int64_t passing = 0;                // the most beside what is saved, with autograd
};

FeedForwardSizes of_mlp(const ModelConfig& config, const Sizes& sizes, std::int64_t width, std::int64_t row_gates = 0) {
  const std::int64_t activated = sizes.compute * width;
  const std::int64_t raised = config.gated_mlp ? 2 * activated : activated;
  const std::int64_t all = raised + activated + row_gates;
  return {raised, activated, all, all, all, row_gates};
}

/// The bytes of what experts have beside the rows that they compute.
struct RoutingSizes {
  RoutingSizes(const ModelConfig& config, const Sizes& sizes, const BatchShape& batch)
      : probabilities(sizes.own_wide * config.experts.count),
        weights(sizes.own_wide * config.experts.per_token),
        indices(sizes.own_rows * config.experts.per_token * static_cast<std::int64_t>(sizeof(std::int32_t))),
        offsets((config.experts.count + 1) * static_cast<std::int64_t>(sizeof(std::int64_t))),
        given(sizes.normalised * config.experts.per_token),
        taken(batch.expert_rows(config.experts.per_token) * config.channels * size_of(batch.compute)),
        table(batch.experts.ranks == 1 ? 0 : batch.experts.ranks * config.experts.count * size_of(DType::f64)) {}

  std::int64_t all() const { return probabilities + weights + 2 * indices + offsets + table; }
  std::int64_t probabilities, weights;  // of the router
  std::int64_t indices;                 // which experts; as much again for which rows
  std::int64_t offsets;
  std::int64_t given;  // what a rank's tokens give to experts, and as much what these give back
  std::int64_t taken;  // what its own experts take at once
  std::int64_t table;  // of where the rows of all go
};

/// Where experts are shared out. Rows go there, packed for each rank, and are put in order; what comes back likewise.
/// What the first round had is saved; further ones have the same again, in forward and in backward.
struct ExchangeRows {
  std::int64_t away, back;  // the most on the way there and on the way back, beside the rows where they came from
};
ExchangeRows exchange_rows_of(const RoutingSizes& routing, const BatchShape& batch) {
  const std::int64_t packed = most_further_rounds(batch.experts) > 0 ? routing.given : 0;
  return {packed + 2 * routing.taken, 2 * routing.taken + routing.given};
}

FeedForwardSizes of_parallel_experts(const RoutingSizes& routing, std::int64_t activated, const BatchShape& batch) {
  const std::int64_t raised = 2 * activated, first = routing.taken + raised + activated;
  const auto [away, back] = exchange_rows_of(routing, batch);
  const std::int64_t round = std::max(away, first + back);
  const std::int64_t rounds = most_further_rounds(batch.experts) > 0 ? first + round : round;  // with what is saved
  const std::int64_t saved = routing.all() + routing.given + first;
  const std::int64_t choosing = 2 * routing.probabilities + routing.weights + routing.indices;
  const std::int64_t beside = routing.all() - routing.probabilities + 2 * routing.given;
  return {.raised = raised,
          .activated = activated,
          .saved = saved,
          .inference = std::max(choosing, beside + round),
          .keeping = std::max(choosing, beside + round + raised),
          .passing = routing.given + rounds - first};
}

FeedForwardSizes of_experts(const ModelConfig& config, const Sizes& sizes, const BatchShape& batch) {
  const RoutingSizes routing(config, sizes, batch);
  const std::int64_t activated =
      batch.expert_rows(config.experts.per_token) * config.experts.feed_forward * size_of(batch.compute);
  if (batch.experts.ranks > 1) return of_parallel_experts(routing, activated, batch);
  const std::int64_t raised = 2 * activated;
  // The router's probabilities are gone when rows come, as its logits before them.
  const auto most = [&](std::int64_t rows) {
    return std::max(2 * routing.probabilities + routing.weights + routing.indices,
                    routing.all() - routing.probabilities + rows);
  };
  return {.raised = raised,
          .activated = activated,
          .saved = routing.all() + 2 * routing.given + raised + activated,
          .inference = most(raised + std::max(routing.given, activated)),
          .keeping = most(raised + activated + routing.given)};
}

/// A matrix that leads to the stream, from the gradient of that; `rounded` is what it reads of it.
void add_matrix_to_stream(Live& backward, std::int64_t input, const Sizes& sizes, std::int64_t rounded) {
  backward.add(rounded + sizes.gathered);
  if (sizes.gathered > 0) backward.drop(rounded);
  backward.add(input).drop(input + (sizes.gathered > 0 ? sizes.gathered : rounded));
}

/// A matrix that reads what a norm gives, all rows of it.
void add_matrix_from_norm(Live& backward, std::int64_t output, const Sizes& sizes) {
  backward.add(sizes.gathered + sizes.normalised).drop(sizes.gathered);           // the input's gradient
  backward.add(sizes.gathered).drop(sizes.gathered + output + sizes.normalised);  // the input again
}

void add_mlp_backward(Live& backward, const FeedForwardSizes& mlp, const Sizes& sizes, std::int64_t rounded) {
  const std::int64_t gates_input = mlp.row_gates > 0 ? sizes.normalised : 0;
  add_matrix_to_stream(backward, mlp.activated, sizes, rounded);                              // down
  backward.add(mlp.raised + mlp.row_gates).drop(mlp.activated + mlp.raised + mlp.row_gates);  // activation
  backward.add(gates_input).drop(mlp.row_gates);                                              // gates of rows
  add_matrix_from_norm(backward, mlp.raised, sizes);                                          // up
  backward.drop(gates_input);
}

/// From the gradient of what experts gave to that of what they were given, both of which stay.
void add_parallel_experts_backward(Live& backward, const RoutingSizes& routing, const FeedForwardSizes& experts,
                                   const BatchShape& batch) {
  const auto [away, back] = exchange_rows_of(routing, batch);
  const auto go_there = [&] { backward.add(away).drop(away - routing.taken); };
  const auto compute = [&] {
    go_there();                                                                             // the gradient
    backward.add(experts.activated).drop(experts.activated);                                // down
    backward.add(experts.raised).drop(routing.taken + experts.raised + experts.activated);  // activation
    backward.add(routing.taken).drop(routing.taken + experts.raised);                       // up
    backward.add(back - routing.taken).drop(back);
  };
  backward.add(routing.given);
  compute();
  if (most_further_rounds(batch.experts) == 0) return;
  backward.add(routing.given);  // what went to them goes there again
  go_there();
  backward.add(experts.raised + experts.activated);
  compute();
  backward.drop(routing.given);
}

void add_experts_backward(Live& backward, const ModelConfig& config, const Sizes& sizes, const BatchShape& batch) {
  const RoutingSizes routing(config, sizes, batch);
  const FeedForwardSizes experts = of_experts(config, sizes, batch);
  const std::int64_t dlogits = sizes.own_compute * config.experts.count;
  const std::int64_t dropped = config.dropout.residual > 0 ? sizes.stream : 0;
  backward.add(dropped + routing.given + routing.weights).drop(dropped + routing.given);  // combine
  if (batch.experts.ranks > 1) {
    add_parallel_experts_backward(backward, routing, experts, batch);
  } else {
    backward.add(experts.activated).drop(routing.given + experts.activated);  // down
    backward.add(experts.raised).drop(experts.activated + experts.raised);    // activation
    backward.add(routing.given).drop(experts.raised + routing.given);         // up
  }
  backward.add(sizes.normalised).drop(routing.given * (batch.experts.ranks > 1 ? 2 : 1));  // dispatch
  backward.add(dlogits + sizes.normalised).drop(dlogits + sizes.normalised + routing.weights + routing.all());
}

/// That a matrix product of a rank has.
std::int64_t rows_of(const LinearShape& layer, const Sizes& sizes) {
  return layer.of_stream ? sizes.own_rows * std::max<std::int64_t>(1, layer.per_token) : sizes.rows;
}

/// Of the forward of a decoder block that kept such values; `square` is the work of each product within attention.
double repeated_flops(const ModelConfig& config, int layer, const Sizes& sizes, double square, KeepSet keeps) {
  const std::vector<LinearShape> layers = linear_layers(config, BlockDescription::Kind::decoder, layer);
  const auto work = [&](std::size_t i) {
    return 2 * static_cast<double>(rows_of(layers[i], sizes) * layers[i].in) * static_cast<double>(layers[i].out);
  };
  const bool has_experts = config.has_experts(layer);
  double flops = keeps.has(Keep::attention) ? 0 : 2 * square;
  if (!keeps.has(Keep::projections)) flops += work(0) + work(1);
  if (has_experts)
    flops += work(2) + (keeps.has(Keep::experts) ? 0 : work(3) + work(4));
  else if (!keeps.has(Keep::mlp))
    flops += work(2);
  if (config.has_shared_expert(layer)) flops += work(5) + (keeps.has(Keep::mlp) ? 0 : work(6));
  return flops;
}

void add_decoder(BlockProfile& result, const ModelConfig& config, int layer, const BatchShape& batch) {
  const Sizes sizes(config, batch);
  const std::int64_t query = config.heads * config.head_size;
  const double square = 2 * static_cast<double>(sizes.rows) *
                        static_cast<double>(attended_keys(config, layer, batch.length)) * static_cast<double>(query);
  result.forward_flops += 2 * square;         // q·k and p·v
  result.backward_input_flops += 4 * square;  // two products for each of them

  const std::int64_t stream = sizes.stream, normalised = sizes.normalised;
  const std::int64_t rounded = config.dropout.residual > 0 ? normalised : sizes.rounded;  // and with its dropout
  const std::int64_t gathered = sizes.gathered, product = sizes.product;
  const std::int64_t qkv = sizes.compute * (query + 2 * config.kv_heads * config.head_size);
  const std::int64_t attended = sizes.compute * query, row_sums = sizes.wide * config.heads;
  const bool has_experts = config.has_experts(layer);
  const FeedForwardSizes mlp =
      has_experts ? of_experts(config, sizes, batch) : of_mlp(config, sizes, config.feed_forward);
  const bool shares = config.has_shared_expert(layer);
  const FeedForwardSizes shared =
      shares ? of_mlp(config, sizes, config.experts.shared_feed_forward, sizes.compute) : FeedForwardSizes{};
  const std::int64_t shared_sum = shares ? stream : 0;  // with what the shared expert gives, for experts to add to
  const bool all_rows = !has_experts || shares;         // are read
  const std::int64_t mlp_gathered = all_rows ? gathered : 0, mlp_product = all_rows ? product : 0;
  const std::int64_t before_norms =
      config.query_key_norm ? qkv + sizes.wide * (config.heads + config.kv_heads) : 0;  // with their statistics
  // Along ulysses what attention reads and gives is exchanged: packed, and as it arrives.
  const bool exchanges = batch.sequence.ulysses > 1;
  const std::int64_t own_heads =
      exchanges ? sizes.compute * exchanged_columns(config, batch.sequence.ulysses) : qkv;  // that attention saves
  const std::int64_t to_heads = exchanges ? own_heads + qkv : 0, to_rows = exchanges ? 2 * attended : 0;
  // Around the ring go keys and values, and in backward their gradients; what partial results add up to has the
  // stream's type.
  const bool rings = batch.sequence.ring > 1;
  const std::int64_t around = rings ? ring_columns(config, batch.sequence.ulysses) : 0;
  const std::int64_t keys = sizes.compute * around, dkeys = sizes.wide * around;
  const std::int64_t sums = rings ? sizes.wide * query : 0;
  const std::int64_t own_output = rings && exchanges ? attended : 0;  // which the ring saves beside what its rank reads
  const std::int64_t norm = normalised + sizes.statistics;
  const std::int64_t before_attention = norm + before_norms + own_heads;
  const std::int64_t in_attention = before_attention + attended + row_sums + own_output;
  const std::int64_t in_mlp = stream + norm + shared.saved + mlp.saved;
  const std::int64_t handed = sizes.handed, widened = sizes.widened, cast = sizes.cast;
  result.saved_bytes += widened + in_attention + in_mlp;
  const auto [forward_scratch, backward_scratch] = batch.attention;
  result.forward_workspace_bytes = Live()
                                       .add(widened + norm + gathered + qkv)
                                       .drop(gathered)
                                       .add(before_attention - norm - qkv + to_heads)
                                       .drop(to_heads)
                                       .add(row_sums + sums + 2 * keys + forward_scratch)
                                       .drop(2 * keys + forward_scratch)
                                       .add(attended + own_output)
                                       .drop(sums)
                                       .add(to_rows)
                                       .drop(to_rows)
                                       .add(product + stream)
                                       .drop(product)
                                       .add(norm + mlp_gathered + shared.saved + shared_sum + mlp.saved)
                                       .drop(mlp_gathered)
                                       .add(mlp.passing)
                                       .drop(mlp.passing)
                                       .add(mlp_product + stream)
                                       .drop(mlp_product + shared_sum)
                                       .add(cast)
                                       .beside(widened + in_attention + in_mlp + handed);
  // Where queries and keys have no norms of their own, attention reads what their product gives, or what ranks made of
  // it; where they have, their norms do.
  const std::int64_t kept_qkv = before_norms > 0 ? qkv : own_heads;
  const auto without_stash = [&](KeepSet keeps, std::int64_t kept) {
    const bool projections = keeps.has(Keep::projections);
    return Live()
        .add(widened + normalised + gathered + qkv)
        .drop(gathered)
        .add(before_norms)
        .drop(before_norms - (projections && before_norms > 0 ? kept_qkv : 0))
        .add(to_heads + own_heads - qkv)
        .drop(to_heads)
        .add(row_sums + sums + 2 * keys + forward_scratch)
        .drop(2 * keys + forward_scratch)
        .add(attended + (keeps.has(Keep::attention) ? own_output : 0))
        .drop(sums)
        .drop(keeps.has(Keep::attention) ? 0 : row_sums)
        .drop(projections && before_norms == 0 ? 0 : own_heads)
        .add(to_rows)
        .drop(to_rows)
        .add(product + stream)
        .drop(product)
        .add(normalised + mlp_gathered)
        .add(shared.inference + shared_sum)
        .drop(shared.inference - (keeps.has(Keep::mlp) ? shared.raised : 0))
        .add((keeps.has(Keep::experts) ? mlp.keeping : mlp.inference) + mlp_product + stream)
        .drop(mlp_gathered + mlp_product + stream + normalised + shared_sum + mlp.inference)
        .add(cast)
        .beside(handed + kept);
  };
  result.inference_workspace_bytes = without_stash({}, 0);
  const RoutingSizes routing(config, sizes, batch);
  for (std::size_t index = 0; index < KeepSet::count; ++index) {
    const KeepSet keeps = KeepSet::at(index);
    std::int64_t kept = has_experts ? routing.indices + routing.table : 0;
    if (keeps.has(Keep::attention)) kept += attended + row_sums + own_output;
    if (keeps.has(Keep::projections)) kept += kept_qkv + stream;
    if (keeps.has(Keep::mlp)) kept += has_experts ? shared.raised : mlp.raised;
    if (keeps.has(Keep::experts) && has_experts) kept += mlp.raised + routing.given;
    result.recomputations.push_back({.kept_bytes = kept,
                                     .workspace_bytes = without_stash(keeps, kept),
                                     .flops = repeated_flops(config, layer, sizes, square, keeps)});
  }
  // Each step has its output gradient, adds its input's, and drops what it saved.
  Live backward;
  backward.add(widened);  // the gradient that is given
  if (has_experts)
    add_experts_backward(backward, config, sizes, batch);
  else
    add_mlp_backward(backward, mlp, sizes, rounded);
  if (shares) add_mlp_backward(backward, shared, sizes, rounded);
  if (has_experts) backward.drop(normalised);  // what the norm saved or, where both read it, one of two gradients
  backward.add(stream).drop(widened + normalised + stream);  // norm, whose gradient goes around
  add_matrix_to_stream(backward, attended, sizes, rounded);  // attention's output
  backward.add(to_rows).drop(to_rows);
  if (rings) {  // products, of queries, keys and values, then what they are at home
    backward.add(row_sums + sums + dkeys + 2 * keys + backward_scratch).drop(keys + backward_scratch);
    backward.add(dkeys).drop(dkeys + keys + row_sums);
    backward.add(own_heads).drop(sums + dkeys + attended + own_heads + own_output);
  } else {
    backward.add(own_heads + backward_scratch).drop(backward_scratch + attended + own_heads);  // attention
  }
  backward.add(to_heads).drop(exchanges ? 2 * own_heads : 0);
  if (before_norms > 0) backward.add(qkv).drop(before_norms + qkv);  // norms of q and k
  add_matrix_from_norm(backward, qkv, sizes);                        // q, k, v
  backward.add(stream).drop(widened).add(cast);                      // norm
  result.backward_workspace_bytes = backward.beside(handed);
}

void add_head(BlockProfile& result, const ModelConfig& config, const BatchShape& batch) {
  const Sizes sizes(config, batch);
  const std::int64_t derivative = sizes.compute * config.vocabulary;
  const bool keeps = derivative <= most_kept_logits_bytes, rounds = sizes.rounded > 0;
  const std::int64_t slice_rows = loss_slice_rows(sizes.rows, config.vocabulary);
  const std::int64_t slice_values = slice_rows * config.vocabulary;
  const std::int64_t logits = slice_values * size_of(stream_type(batch.compute));
  const std::int64_t slice = logits + (rounds ? slice_values * size_of(batch.compute) : 0);  // and their derivative
  const std::int64_t kept = keeps ? derivative : 0;
  result.saved_bytes += sizes.widened + sizes.normalised + sizes.statistics + kept;
  result.forward_workspace_bytes = sizes.gathered + (keeps && !rounds ? 0 : logits);
  result.inference_workspace_bytes = sizes.widened + sizes.normalised + sizes.gathered + logits;
  Live backward;
  backward.add(sizes.gathered + (sizes.product > 0 ? sizes.product : sizes.stream));
  backward.add(keeps ? 0 : slice).drop(keeps ? 0 : slice);
  if (sizes.product > 0) backward.add(sizes.stream).drop(sizes.product);
  if (rounds) backward.add(sizes.rounded).drop(sizes.stream);
  backward.drop(sizes.gathered + sizes.normalised + kept).add(sizes.stream).drop(sizes.widened).add(sizes.cast);
  result.backward_workspace_bytes = backward.beside(sizes.handed);
}

/// Its sum has the stream's type, and so has the gradient that its tables get: with dropout, what is left of it.
void add_embedding(BlockProfile& result, const ModelConfig& config, const Sizes& sizes) {
  result.forward_workspace_bytes = result.inference_workspace_bytes = sizes.widened + sizes.product;
  result.backward_workspace_bytes = sizes.widened + sizes.product + (config.dropout.embedding > 0 ? sizes.stream : 0);
}

}  // namespace

std::int64_t loss_slice_rows(std::int64_t rows, std::int64_t vocabulary) {
  return std::clamp<std::int64_t>(logits_at_once / std::max<std::int64_t>(1, vocabulary), 1,
                                  std::max<std::int64_t>(1, rows));
}

std::vector<LinearShape> linear_layers(const ModelConfig& config, BlockDescription::Kind kind, int layer) {
  const std::int64_t query = config.heads * config.head_size, key_value = config.kv_heads * config.head_size;
  switch (kind) {
    case BlockDescription::Kind::embedding: return {};
    case BlockDescription::Kind::decoder:
      if (config.has_experts(layer)) {
        const Experts& experts = config.experts;
        std::vector<LinearShape> layers{
            {config.channels, query + 2 * key_value},
            {query, config.channels},
            {.in = config.channels, .out = experts.count, .of_stream = true},
            {.in = config.channels, .out = 2 * experts.feed_forward, .of_stream = true, .per_token = experts.per_token},
            {.in = experts.feed_forward, .out = config.channels, .of_stream = true, .per_token = experts.per_token}};
        if (config.has_shared_expert(layer)) {
          layers.push_back({.in = config.channels, .out = 1, .reads_again = true});
          layers.push_back({.in = config.channels, .out = 2 * experts.shared_feed_forward, .reads_again = true});
          layers.push_back({experts.shared_feed_forward, config.channels});
        }
        return layers;
      }
      return {{config.channels, query + 2 * key_value},
              {query, config.channels},
              {config.channels, (config.gated_mlp ? 2 : 1) * config.feed_forward},
              {config.feed_forward, config.channels}};
    case BlockDescription::Kind::head: return {{config.channels, config.vocabulary}};
  }
  fail(ExitCode::bug, "unknown BlockDescription::Kind {}", static_cast<int>(kind));
}

namespace {

/// What ranks say over the rows of a micro-batch.
struct BlockExchangeMaker {
  using Exchange = BlockExchange::Kind;
  const ModelConfig& part;
  const BatchShape& batch;
  const BlockSharing& sharing;

  bool shares() const { return sharing.ranks > 1; }
  bool shares_rows() const { return batch.row_shares > 1; }
  bool exchanges_heads() const { return batch.sequence.ulysses > 1; }
  DType wide() const { return stream_type(batch.compute); }
  DType narrow() const { return batch.compute; }
  BlockExchange sum_of_rows(DType dtype) const {
    return of_rows(shares_rows() ? Exchange::reduce_scatter : Exchange::all_reduce, dtype);
  }
  BlockExchange rows_of_all(DType dtype) const { return of_rows(Exchange::all_gather, dtype); }
  BlockExchange heads() const { return over_ulysses(exchanged_columns(part, batch.sequence.ulysses)); }
  BlockExchange attended() const { return over_ulysses(part.heads * part.head_size); }
  /// Keys and values, or their gradients.
  BlockExchange around(DType dtype) const {
    return {Exchange::shift, {ring_axis}, dtype, ring_columns(part, batch.sequence.ulysses) * size_of(dtype), 0,
            batch.rows()};
  }
  void attention(std::vector<BlockExchange>& exchanges) const {
    exchanges.insert(exchanges.end(), static_cast<std::size_t>(batch.sequence.ring - 1), around(narrow()));
  }
  void back_from_attention(std::vector<BlockExchange>& exchanges) const {
    for (int made = 0; batch.sequence.ring > 1 && made < batch.sequence.ring; ++made) {
      if (made + 1 < batch.sequence.ring) exchanges.push_back(around(narrow()));
      exchanges.push_back(around(wide()));
    }
  }
  /// What balances the experts of a layer: choices and probabilities of each sample.
  void balance(std::vector<BlockExchange>& exchanges, int layer) const {
    std::vector<AxisName> sharers = axes_of(batch.sequence);
    if (shares_rows()) std::ranges::copy(sharing.axes(), std::back_inserter(sharers));
    if (sharers.empty() || !part.has_experts(layer) || part.experts.aux_coefficient == 0) return;
    exchanges.push_back({.kind = Exchange::all_reduce,
                         .axes = std::move(sharers),
                         .dtype = wide(),
                         .row_bytes = 2 * part.experts.count * size_of(wide()),
                         .rows = batch.samples,
                         .of_samples = true,
                         .in_training = true});
  }

  // Rows that go to experts of other ranks, and back.
  bool shares_experts(int layer) const { return batch.experts.ranks > 1 && part.has_experts(layer); }
  BlockExchange over_experts(std::int64_t rows, std::int64_t repeats) const {
    return {.kind = Exchange::all_to_all,
            .axes = {expert_axis},
            .dtype = narrow(),
            .row_bytes = part.channels * size_of(narrow()),
            .rows = rows,
            .at_most = true,
            .repeats = repeats};
  }
  BlockExchange to_experts(std::int64_t repeats = 0) const {
    return over_experts(batch.own_rows() * part.experts.per_token, repeats);
  }
  BlockExchange from_experts(std::int64_t repeats = 0) const {
    return over_experts(batch.expert_rows(part.experts.per_token), repeats);
  }
  /// How many rows of each rank go to each expert.
  BlockExchange table() const {
    return {.kind = Exchange::all_gather,
            .axes = {expert_axis},
            .dtype = DType::f64,
            .row_bytes = part.experts.count * size_of(DType::f64),
            .rows = 1,  // of the first sample: once
            .of_samples = true};
  }
  void through_experts(std::vector<BlockExchange>& exchanges, int layer) const {
    if (!shares_experts(layer)) return;
    exchanges.insert(exchanges.end(), {to_experts(), from_experts()});
    if (const std::int64_t further = most_further_rounds(batch.experts); further > 0)
      exchanges.insert(exchanges.end(), {to_experts(further), from_experts(further)});
  }
  void back_through_experts(std::vector<BlockExchange>& exchanges, int layer) const {
    if (!shares_experts(layer)) return;
    exchanges.insert(exchanges.end(), {to_experts(), from_experts()});
    if (const std::int64_t further = most_further_rounds(batch.experts); further > 0)  // what they had goes there again
      exchanges.insert(exchanges.end(), {to_experts(further), to_experts(further), from_experts(further)});
  }

  // In each half of a decoder block, attention and MLP, a matrix after a norm and one that leads back to the stream.
  void from_norm(std::vector<BlockExchange>& exchanges) const {
    if (shares_rows()) exchanges.push_back(rows_of_all(narrow()));
  }
  void to_stream(std::vector<BlockExchange>& exchanges) const {
    if (shares()) exchanges.push_back(sum_of_rows(wide()));
  }
  void back_to_norm(std::vector<BlockExchange>& exchanges) const {
    if (shares()) exchanges.push_back(sum_of_rows(narrow()));
    if (shares_rows()) exchanges.push_back(rows_of_all(narrow()));
  }
  void back_from_stream(std::vector<BlockExchange>& exchanges) const {
    if (shares_rows()) exchanges.push_back(rows_of_all(narrow()));
  }

 private:
  BlockExchange of_rows(Exchange exchange, DType dtype) const {
    const int sharers = exchange == Exchange::all_gather ? batch.row_shares : 1;
    return {exchange, sharing.axes(), dtype, part.channels * size_of(dtype), 0, batch.rows(), sharers};
  }
  BlockExchange over_ulysses(std::int64_t columns) const {
    return {Exchange::all_to_all, {ulysses_axis}, narrow(), columns * size_of(narrow()), 0, batch.rows()};
  }
};

BlockExchanges exchanges_of_decoder(const BlockExchangeMaker& make, ForwardFor purpose, int layer) {
  BlockExchanges exchanges;
  make.from_norm(exchanges.forward);
  if (make.exchanges_heads()) exchanges.forward.push_back(make.heads());
  make.attention(exchanges.forward);
  if (make.exchanges_heads()) exchanges.forward.push_back(make.attended());
  make.to_stream(exchanges.forward);
  if (make.part.has_experts(layer)) {
    if (make.part.has_shared_expert(layer)) {
      make.from_norm(exchanges.forward);
      make.from_norm(exchanges.forward);  // its gate
      make.to_stream(exchanges.forward);
    }
    if (purpose == ForwardFor::batch) make.balance(exchanges.forward, layer);
    if (make.shares_experts(layer)) exchanges.forward.push_back(make.table());
    make.through_experts(exchanges.forward, layer);
    make.back_through_experts(exchanges.backward, layer);
    if (make.part.has_shared_expert(layer)) {
      make.back_from_stream(exchanges.backward);
      make.back_to_norm(exchanges.backward);  // of its gate
      make.back_to_norm(exchanges.backward);
    }
  } else {
    make.from_norm(exchanges.forward);
    make.to_stream(exchanges.forward);
    make.back_from_stream(exchanges.backward);
    make.back_to_norm(exchanges.backward);
  }
  make.back_from_stream(exchanges.backward);
  if (make.exchanges_heads()) exchanges.backward.push_back(make.attended());
  make.back_from_attention(exchanges.backward);
  if (make.exchanges_heads()) exchanges.backward.push_back(make.heads());
  make.back_to_norm(exchanges.backward);
  return exchanges;
}

BlockExchanges exchanges_of_head(const BlockExchangeMaker& make, ForwardFor purpose) {
  BlockExchanges exchanges;
  if (!make.shares()) return exchanges;
  const DType wide = make.wide(), narrow = make.narrow();
  const auto gathered = [&](DType dtype, std::int64_t row_bytes, std::int64_t first, std::int64_t rows) {
    return BlockExchange{BlockExchange::Kind::all_gather, make.sharing.axes(), dtype, row_bytes, first, rows};
  };
  make.back_from_stream(exchanges.backward);
  exchanges.backward.push_back(make.sum_of_rows(wide));
  if (purpose == ForwardFor::text) {
    if (make.shares_rows()) exchanges.forward = {make.rows_of_all(make.batch.output.value_or(wide))};
    exchanges.forward.push_back(gathered(wide, make.part.vocabulary * size_of(wide), 0, 1));
    return exchanges;
  }
  if (make.shares_rows()) exchanges.forward = {make.rows_of_all(narrow)};
  const std::int64_t rows = make.batch.rows(), slice = loss_slice_rows(rows, make.part.vocabulary);
  for (std::int64_t first = 0; first < rows; first += slice)
    exchanges.forward.push_back(gathered(DType::f64, 3 * size_of(DType::f64), first, std::min(slice, rows - first)));
  return exchanges;
}

}  // namespace

BlockExchanges exchanges_of(const ModelConfig& part, BlockDescription::Kind kind, const BatchShape& batch,
                            const BlockSharing& sharing, ForwardFor purpose, int layer) {
  const BlockExchangeMaker make{part, batch, sharing};
  switch (kind) {
    case BlockDescription::Kind::embedding: {
      BlockExchanges exchanges;
      if (make.shares()) exchanges.forward = {make.sum_of_rows(make.wide())};
      if (make.shares_rows()) exchanges.backward = {make.rows_of_all(make.wide())};
      return exchanges;
    }
    case BlockDescription::Kind::decoder: return exchanges_of_decoder(make, purpose, layer);
    case BlockDescription::Kind::head: return exchanges_of_head(make, purpose);
  }
  fail(ExitCode::bug, "unknown BlockDescription::Kind {}", static_cast<int>(kind));
}

std::vector<BlockExchange> repeated_exchanges(const ModelConfig& part, const BatchShape& batch,
                                              const BlockSharing& sharing, KeepSet keeps, int layer) {
  const BlockExchangeMaker make{part, batch, sharing};
  const bool projections = keeps.has(Keep::projections);
  std::vector<BlockExchange> exchanges;
  if (!projections) make.from_norm(exchanges);
  if (make.exchanges_heads() && (!projections || part.query_key_norm)) exchanges.push_back(make.heads());
  if (!keeps.has(Keep::attention)) make.attention(exchanges);
  if (make.exchanges_heads() && !keeps.has(Keep::attention)) exchanges.push_back(make.attended());
  if (!projections) make.to_stream(exchanges);
  const bool shared = part.has_shared_expert(layer);
  if (!keeps.has(Keep::mlp) && (shared || !part.has_experts(layer))) make.from_norm(exchanges);
  if (shared) make.from_norm(exchanges);  // its gate
  make.balance(exchanges, layer);         // the product that ends the layer is not repeated
  if (!keeps.has(Keep::experts))
    make.through_experts(exchanges, layer);
  else if (make.shares_experts(layer))
    exchanges.push_back(make.to_experts());
  return exchanges;
}

BlockProfile profile(const Architecture& architecture, std::size_t block, const BatchShape& batch) {
  invariant(block < architecture.blocks.size(), "the profiled block exists");
  using Kind = BlockDescription::Kind;
  const ModelConfig& config = architecture.config;
  const BlockDescription& description = architecture.blocks[block];
  const Sizes sizes(config, batch);
  BlockProfile result;
  for (const LogicalTensor& tensor : description.tensors)
    if (tensor.alias_of.empty()) result.parameter_elements += elements(tensor.shape);
  result.parameter_bytes = result.parameter_elements * size_of(batch.compute);
  double products = 0;
  for (const LinearShape& layer : linear_layers(config, description.kind, description.layer)) {
    const bool of_experts = layer.per_token > 0;
    products += 2 * static_cast<double>(rows_of(layer, sizes) * layer.in) * static_cast<double>(layer.out);
    result.deferred_bytes += size_of(batch.compute) * ((layer.reads_again ? 0 : layer.in) + layer.out) *
                             (of_experts ? batch.expert_rows(layer.per_token) : rows_of(layer, sizes));
  }
  result.forward_flops = result.backward_input_flops = result.backward_weight_flops = products;
  result.input_bytes = description.kind == Kind::embedding ? 0 : sizes.handed;
  result.output_bytes = description.kind == Kind::head ? loss_bytes : sizes.handed;
  result.saved_bytes = result.input_bytes;
  if (description.kind == Kind::embedding) add_embedding(result, config, sizes);
  if (description.kind == Kind::decoder) add_decoder(result, config, description.layer, batch);
  if (description.kind == Kind::head) add_head(result, config, batch);
  return result;
}

}  // namespace lockstep
