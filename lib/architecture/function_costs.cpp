#include "architecture/function_costs.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {

namespace {

using Exchange = BlockExchange::Kind;

/// Along tp each rank contributes all rows or, to a gather, its own.
BlockExchange over_tensor_ranks(const CallRows& rows, Exchange kind, std::int64_t channels, DType dtype) {
  const int shares = kind == Exchange::all_gather ? rows.sharing.row_shares() : 1;
  return {kind, rows.sharing.axes(), dtype, channels * size_of(dtype), 0, rows.all, shares};
}
std::vector<BlockExchange> gather_of_rows(const CallRows& rows, std::int64_t channels, DType dtype) {
  if (rows.sharing.row_shares() == 1) return {};
  return {over_tensor_ranks(rows, Exchange::all_gather, channels, dtype)};
}
std::vector<BlockExchange> sum_over_ranks(const CallRows& rows, std::int64_t channels, DType dtype) {
  if (rows.sharing.ranks == 1) return {};
  return {over_tensor_ranks(rows, rows.sharing.row_shares() > 1 ? Exchange::reduce_scatter : Exchange::all_reduce,
                            channels, dtype)};
}

void append(std::vector<BlockExchange>& all, const std::vector<BlockExchange>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

BlockExchange over_ulysses(const CallRows& rows, std::int64_t columns) {
  return {Exchange::all_to_all, {ulysses_axis}, rows.compute, columns * size_of(rows.compute), 0, rows.all};
}

}  // namespace

std::int64_t most_of(const MemorySteps& steps) {
  std::int64_t now = 0, most = 0;
  for (const std::int64_t step : steps) most = std::max(most, now += step);
  return most;
}

std::int64_t left_by(const MemorySteps& steps) { return std::accumulate(steps.begin(), steps.end(), std::int64_t{0}); }

FunctionCosts cast_costs(std::int64_t from_bytes, std::int64_t to_bytes) {
  return {.results = {to_bytes}, .forward = {to_bytes}, .gradients = {from_bytes}, .backward = {from_bytes}};
}

FunctionCosts embedding_costs(const CallRows& rows, std::int64_t channels, double dropout) {
  const std::int64_t stream = rows.own_wide(channels), whole = rows.sharing.row_shares() > 1 ? rows.wide(channels) : 0;
  const std::int64_t dropped = dropout > 0 ? stream : 0;
  return {.results = {stream},
          .forward = {whole, stream, -whole},
          .backward = {dropped, whole, -dropped - whole},
          .forward_exchanges = sum_over_ranks(rows, channels, rows.wide_dtype()),
          .backward_exchanges = gather_of_rows(rows, channels, rows.wide_dtype())};
}

FunctionCosts norm_costs(const CallRows& rows, std::int64_t channels, Norm norm) {
  const std::int64_t normalised = rows.own_narrow(channels), stream = rows.own_wide(channels);
  const std::int64_t statistics = rows.own_wide(norm == Norm::layer_norm ? 2 : 1);
  return {.results = {normalised},
          .forward = {normalised, statistics},
          .gradients = {stream},
          .backward = {stream},
          .joins_gradients = true};
}

FunctionCosts linear_costs(const CallRows& rows, std::int64_t in, std::int64_t out, std::int64_t parts) {
  const bool shares_rows = rows.sharing.row_shares() > 1;
  const std::int64_t gathered = shares_rows ? rows.narrow(in) : 0, y = rows.narrow(out);
  const std::int64_t dx = rows.own_narrow(in), all_dx = shares_rows ? rows.narrow(in) : 0;
  const std::int64_t sums = parts > 1 && rows.compute != rows.wide_dtype() ? rows.wide(in) : 0;
  std::vector<BlockExchange> backward = sum_over_ranks(rows, in, rows.compute);
  append(backward, gather_of_rows(rows, in, rows.compute));
  return {.results = {y},
          .forward = {gathered, y, -gathered},
          .gradients = {dx},
          .backward = {sums, shares_rows ? all_dx : dx, -sums, shares_rows ? dx : 0, -all_dx, gathered, -gathered},
          .products = {{rows.all, in, out}},
          .deferred_bytes = y + gathered,
          .defers_argument = !shares_rows,
          .forward_exchanges = gather_of_rows(rows, in, rows.compute),
          .backward_exchanges = std::move(backward)};
}

FunctionCosts add_linear_costs(const CallRows& rows, std::int64_t in, std::int64_t out, double dropout) {
  const bool shares_rows = rows.sharing.row_shares() > 1;
  const std::int64_t y = rows.own_wide(out), product = shares_rows ? rows.wide(out) : 0, dx = rows.narrow(in);
  const std::int64_t rounded = dropout > 0 || rows.compute != rows.wide_dtype() ? rows.own_narrow(out) : 0;
  const std::int64_t gathered = shares_rows ? rows.narrow(out) : 0;
  return {.results = {y},
          .forward = {product, y, -product},
          .gradients = {dx},
          .backward = {rounded, gathered, dx, -rounded - gathered},
          .products = {{rows.all, in, out}},
          .deferred_bytes = rows.narrow(out),
          .defers_argument = true,
          .forward_exchanges = sum_over_ranks(rows, out, rows.wide_dtype()),
          .backward_exchanges = gather_of_rows(rows, out, rows.compute)};
}

FunctionCosts head_norm_costs(const CallRows& rows, const AttentionShape& shape) {
  const std::int64_t qkv = rows.narrow(shape.width());
  return {.results = {qkv},
          .forward = {qkv, rows.wide(shape.heads + shape.kv_heads)},
          .gradients = {qkv},
          .backward = {qkv}};
}

FunctionCosts to_own_heads_costs(const CallRows& rows, const AttentionShape& shape, std::int64_t ranks) {
  const std::int64_t columns = ranks * share_of(shape, ranks).width();
  const std::int64_t qkv = rows.narrow(shape.width()), own_heads = rows.narrow(columns);
  // of the gradients of one key head on several ranks
  const std::int64_t sums =
      ranks > shape.kv_heads && rows.compute != rows.wide_dtype() ? rows.wide(shape.head_size) : 0;
  return {.results = {own_heads},
          .forward = {own_heads, own_heads, -own_heads},
          .gradients = {qkv},
          .backward = {own_heads, qkv, sums, -sums - own_heads},
          .forward_exchanges = {over_ulysses(rows, columns)},
          .backward_exchanges = {over_ulysses(rows, columns)}};
}

FunctionCosts to_own_rows_costs(const CallRows& rows, const AttentionShape& shape) {
  const std::int64_t columns = shape.heads * shape.head_size, y = rows.narrow(columns);
  return {.results = {y},
          .forward = {y, y, -y},
          .gradients = {y},
          .backward = {y, y, -y},
          .forward_exchanges = {over_ulysses(rows, columns)},
          .backward_exchanges = {over_ulysses(rows, columns)}};
}

namespace {

/// Keys and values go around the ring and, in backward, their gradients.
void add_ring(FunctionCosts& costs, const CallRows& rows, const AttentionShape& shape, const AttentionScratch& scratch,
              const SequenceRanks& ranks) {
  const std::int64_t columns = 2 * shape.kv_heads * shape.head_size, query = shape.heads * shape.head_size;
  const std::int64_t y = rows.narrow(query), sums = rows.wide(query), of_row = rows.wide(shape.heads);
  const std::int64_t keys = rows.narrow(columns), dkeys = rows.wide(columns), qkv = rows.narrow(shape.width());
  costs.forward = {of_row, sums, 2 * keys, scratch.forward, -scratch.forward - 2 * keys, y, -sums};
  costs.backward = {of_row, sums,          dkeys,   2 * keys, scratch.backward, -scratch.backward - keys,
                    dkeys,  -dkeys - keys, -of_row, qkv,      -sums - dkeys};
  const auto shift = [&](DType dtype) {
    return BlockExchange{Exchange::shift,         {ring_axis}, dtype, ranks.ulysses * columns * size_of(dtype), 0,
                         rows.all / ranks.ulysses};
  };
  for (int made = 0; made < ranks.ring; ++made) {
    const bool last = made + 1 == ranks.ring;
    if (!last) costs.forward_exchanges.push_back(shift(rows.compute));
    if (!last) costs.backward_exchanges.push_back(shift(rows.compute));
    costs.backward_exchanges.push_back(shift(rows.wide_dtype()));
  }
}

}  // namespace

FunctionCosts attention_costs(const CallRows& rows, const AttentionShape& shape, std::int64_t keys,
                              const AttentionScratch& scratch, const SequenceRanks& ranks) {
  const std::int64_t query = shape.heads * shape.head_size;
  const std::int64_t y = rows.narrow(query), log_sums = rows.wide(shape.heads), qkv = rows.narrow(shape.width());
  const double product = 2 * static_cast<double>(rows.all) * static_cast<double>(keys) * static_cast<double>(query);
  FunctionCosts costs{.results = {y, log_sums},
                      .forward = {y, log_sums, scratch.forward, -scratch.forward},
                      .gradients = {qkv},
                      .backward = {qkv, scratch.backward, -scratch.backward},
                      .forward_flops = 2 * product,    // q·k and p·v
                      .backward_flops = 4 * product};  // two products for each of them
  if (ranks.ring > 1) add_ring(costs, rows, shape, scratch, ranks);
  return costs;
}

FunctionCosts cached_attention_costs(const CallRows& rows, const AttentionShape& shape, std::int64_t keys,
                                     std::int64_t scratch_bytes) {
  const std::int64_t query = shape.heads * shape.head_size, y = rows.narrow(query);
  return {.results = {y},
          .forward = {y, scratch_bytes, -scratch_bytes},
          .forward_flops = 4 * static_cast<double>(rows.all) * static_cast<double>(keys) * static_cast<double>(query)};
}

FunctionCosts activation_costs(std::int64_t raised, std::int64_t activated, std::int64_t row_gates) {
  return {.results = {activated},
          .forward = {activated},
          .gradients = {raised, row_gates},
          .backward = {raised, row_gates}};
}

FunctionCosts router_costs(const CallRows& rows, std::int64_t channels, const Experts& experts,
                           const std::vector<AxisName>& aux_axes, std::int64_t samples) {
  const std::int64_t probabilities = rows.own_wide(experts.count), weights = rows.own_wide(experts.per_token);
  const std::int64_t indices = rows.own() * experts.per_token * static_cast<std::int64_t>(sizeof(std::int32_t));
  const std::int64_t offsets = (experts.count + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
  const std::int64_t dlogits = rows.own_narrow(experts.count), dx = rows.own_narrow(channels);
  FunctionCosts costs{.results = {weights, indices, indices, offsets},
                      .forward = {indices, probabilities, weights, probabilities, -probabilities, indices, offsets},
                      .gradients = {dx},
                      .backward = {dlogits, dx, -dlogits - probabilities},
                      .products = {{rows.own(), channels, experts.count}},
                      .deferred_bytes = dlogits,
                      .defers_argument = true};
  if (!aux_axes.empty())  // choices and probabilities of each sample
    costs.forward_exchanges = {{.kind = Exchange::all_reduce,
                                .axes = aux_axes,
                                .dtype = rows.wide_dtype(),
                                .row_bytes = 2 * experts.count * size_of(rows.wide_dtype()),
                                .rows = samples,
                                .of_samples = true,
                                .in_training = true}};
  return costs;
}

FunctionCosts dispatch_costs(const CallRows& rows, std::int64_t channels, std::int64_t given) {
  const std::int64_t out = given * channels * size_of(rows.compute), dx = rows.own_narrow(channels);
  return {.results = {out}, .forward = {out}, .gradients = {dx}, .backward = {dx}};
}

FunctionCosts combine_costs(const CallRows& rows, std::int64_t channels, std::int64_t per_token, std::int64_t given,
                            double dropout) {
  const std::int64_t stream = rows.own_wide(channels), drows = given * channels * size_of(rows.compute);
  const std::int64_t dweights = rows.own_wide(per_token), dropped = dropout > 0 ? stream : 0;
  return {.results = {stream},
          .forward = {stream},
          .gradients = {drows, dweights},
          .backward = {dropped, drows, dweights, -dropped}};
}

FunctionCosts grouped_linear_costs(const MatrixProduct& product, DType compute) {
  const std::int64_t in = product.rows * product.in * size_of(compute);
  const std::int64_t out = product.rows * product.out * size_of(compute);
  return {.results = {out},
          .forward = {out},
          .gradients = {in},
          .backward = {in},
          .products = {product},
          .deferred_bytes = out,
          .defers_argument = true};
}

FunctionCosts expert_table_costs(const ParallelExpertsCall& call) {
  const std::int64_t row = call.experts * size_of(DType::f64);  // rows of one rank for each expert
  return {.results = {call.ranks * row},
          .forward = {call.ranks * row},
          .forward_exchanges = {{.kind = Exchange::all_gather,
                                 .axes = {expert_axis},
                                 .dtype = DType::f64,
                                 .row_bytes = row,
                                 .rows = 1,  // of the first sample: once
                                 .of_samples = true}}};
}

namespace {

/// Bytes of one round: rows that this rank sends and gets back, packed if some of them go in another round; rows that
/// its experts take; and their values before and behind the activation.
struct ExpertRound {
  ExpertRound(const ParallelExpertsCall& call, DType compute)
      : given(call.given * call.channels * size_of(compute)),
        packed(call.further_rounds > 0 ? given : 0),
        taken(call.taken * call.channels * size_of(compute)),
        activated(call.taken * call.feed_forward * size_of(compute)),
        raised(2 * activated) {}
  std::int64_t given, packed, taken, activated, raised;

  /// Rows go to their experts and are put in order there.
  void add_way_there(MemorySteps& steps) const { steps.insert(steps.end(), {packed, taken, taken, -packed - taken}); }
  void add_way_back(MemorySteps& steps) const { steps.insert(steps.end(), {taken, given, -taken - given}); }
  void add_forward(MemorySteps& steps, std::int64_t left) const {
    add_way_there(steps);
    steps.insert(steps.end(), {raised, activated, taken});
    add_way_back(steps);
    steps.push_back(left - 2 * taken - raised - activated);
  }
  /// Each value of forward is freed as soon as it is used.
  void add_backward(MemorySteps& steps) const {
    add_way_there(steps);
    steps.insert(steps.end(), {activated, -activated, raised, -taken - raised, taken, -activated - taken - raised});
    add_way_back(steps);
    steps.push_back(-taken);
  }
};

void add_rounds(FunctionCosts& costs, const ParallelExpertsCall& call, DType compute) {
  const auto exchange = [&](std::int64_t rows, std::int64_t repeats) {
    return BlockExchange{.kind = Exchange::all_to_all,
                         .axes = {expert_axis},
                         .dtype = compute,
                         .row_bytes = call.channels * size_of(compute),
                         .rows = rows,
                         .at_most = true,
                         .repeats = repeats};
  };
  const auto there = [&](std::int64_t repeats = 0) { return exchange(call.given, repeats); };
  const auto back = [&](std::int64_t repeats = 0) { return exchange(call.taken, repeats); };
  costs.known_exchanges = {there()};
  costs.forward_exchanges = costs.backward_exchanges = {there(), back()};
  if (const std::int64_t further = call.further_rounds; further > 0) {
    append(costs.forward_exchanges, {there(further), back(further)});
    append(costs.backward_exchanges, {there(further), there(further), back(further)});  // rows go there again
  }
}

}  // namespace

FunctionCosts parallel_experts_costs(const CallRows& rows, const ParallelExpertsCall& call, FirstRound first) {
  const ExpertRound round(call, rows.compute);
  const std::int64_t all = round.taken + round.raised + round.activated, dx = rows.own_narrow(call.channels);
  const std::int64_t again = round.packed;  // the rows of further rounds, dispatched again
  FunctionCosts costs{
      .results = {round.given},
      .forward = {round.given, round.given},
      .gradients = {dx},
      .backward = {round.given, again},
      .at_most = true,
      .products = {{call.given, call.channels, 2 * call.feed_forward}, {call.given, call.feed_forward, call.channels}},
      .deferred_bytes = all + round.taken};
  if (first == FirstRound::raised_as_result) costs.results.push_back(round.raised);
  round.add_forward(costs.forward, first == FirstRound::freed              ? 0
                                   : first == FirstRound::raised_as_result ? round.raised
                                                                           : all);
  round.add_backward(costs.backward);
  if (call.further_rounds > 0) {
    round.add_forward(costs.forward, 0);
    round.add_way_there(costs.backward);
    costs.backward.insert(costs.backward.end(), {round.raised, round.activated});
    round.add_backward(costs.backward);
  }
  costs.forward.push_back(-round.given);
  costs.backward.insert(costs.backward.end(), {dx, -round.given - again});
  add_rounds(costs, call, rows.compute);
  return costs;
}

std::int64_t loss_slice_rows(std::int64_t rows, std::int64_t vocabulary) {
  return std::clamp<std::int64_t>(logits_at_once / std::max<std::int64_t>(1, vocabulary), 1,
                                  std::max<std::int64_t>(1, rows));
}

FunctionCosts loss_costs(const CallRows& rows, std::int64_t channels, std::int64_t vocabulary, std::int64_t columns,
                         std::int64_t most_kept_bytes) {
  const bool shares_rows = rows.sharing.row_shares() > 1, rounds = rows.compute != rows.wide_dtype();
  const std::int64_t all = rows.narrow(columns), slice_rows = loss_slice_rows(rows.all, vocabulary);
  const std::int64_t kept = all <= most_kept_bytes ? all : 0;  // the derivative of the logits, in their place
  const std::int64_t logits = slice_rows * columns * size_of(rows.wide_dtype());
  const std::int64_t derivative = kept > 0 ? 0 : slice_rows * columns * size_of(rows.compute);
  const std::int64_t gathered = shares_rows ? rows.narrow(channels) : 0;
  const std::int64_t sums = shares_rows ? rows.wide(channels) : 0, own = rows.own_wide(channels);
  const std::int64_t in_forward = kept > 0 && !rounds ? 0 : logits;
  const std::int64_t in_backward = kept > 0 ? 0 : derivative + (rounds ? logits : 0);
  const std::int64_t dx = rows.own_narrow(channels);
  std::vector<BlockExchange> forward = gather_of_rows(rows, channels, rows.compute), backward = forward;
  append(backward, sum_over_ranks(rows, channels, rows.wide_dtype()));
  for (std::int64_t first = 0; rows.sharing.ranks > 1 && first < rows.all; first += slice_rows)
    forward.push_back({Exchange::all_gather, rows.sharing.axes(), DType::f64, 3 * size_of(DType::f64), first,
                       std::min(slice_rows, rows.all - first)});
  const std::int64_t loss_bytes = size_of(DType::f64);
  return {.results = {loss_bytes},
          .forward = {loss_bytes, gathered, kept, in_forward, -in_forward - gathered},
          .gradients = {dx},
          .backward = {gathered, shares_rows ? sums : own, in_backward, -in_backward, shares_rows ? own : 0, -sums,
                       rounds ? dx : 0, rounds ? -own : 0, -gathered - kept},
          .products = {{rows.all, channels, columns}},
          .deferred_bytes = all + gathered,
          .defers_argument = !shares_rows,
          .forward_exchanges = std::move(forward),
          .backward_exchanges = std::move(backward)};
}

FunctionCosts text_logits_costs(const CallRows& rows, std::int64_t texts, std::int64_t channels,
                                std::int64_t vocabulary, std::int64_t columns, DType output) {
  const CallRows last{.all = texts, .compute = rows.compute, .sharing = {}};
  const std::int64_t whole = vocabulary * rows.sharing.ranks;
  const std::int64_t gathered = rows.sharing.row_shares() > 1 ? rows.all * channels * size_of(output) : 0;
  const std::int64_t input = texts * channels * size_of(output) + last.wide(channels) + last.narrow(channels);
  const std::int64_t parts = last.wide(columns) + (rows.sharing.ranks > 1 ? 2 * last.wide(whole) : last.wide(whole));
  const std::int64_t logits = texts * whole * size_of(DType::f64), loss_bytes = size_of(DType::f64);
  FunctionCosts costs{.results = {loss_bytes},
                      .forward = {loss_bytes, gathered + input, parts, logits, -gathered - input - parts - logits},
                      .at_most = true,
                      .products = {{texts, channels, columns}}};
  if (rows.sharing.ranks == 1) return costs;
  costs.forward_exchanges = gather_of_rows(rows, channels, output);
  costs.forward_exchanges.push_back({.kind = Exchange::all_gather,
                                     .axes = rows.sharing.axes(),
                                     .dtype = rows.wide_dtype(),
                                     .row_bytes = vocabulary * size_of(rows.wide_dtype()),
                                     .rows = texts,
                                     .of_samples = true});
  return costs;
}

}  // namespace lockstep
