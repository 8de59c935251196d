#include "architecture/block_profile.hpp"

#include "architecture/cost_tape.hpp"
#include "architecture/gpu_attention.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep {

namespace {

/// The values that a forward leaves to its repetition: Replay of model/block.hpp.
struct KeptValues {
  bool repeated = false;
  KeepSet keeps = {};
  CountedTensor experts = {}, expert_table = {};
  CountedTensor qkv = {}, attended = {}, log_sums = {}, own_attended = {}, stream = {}, raised = {};
  CountedTensor expert_raised = {}, expert_lowered = {};
};

/// The calls of a block, with the tensors that live between them, as in model/block.cpp.
class BlockCalls {
 public:
  BlockCalls(const ModelConfig& config, const BlockDescription& description, const BatchShape& batch)
      : config_(config),
        description_(description),
        batch_(batch),
        rows_{batch.rows(), batch.compute, batch.sharing},
        shape_{config.heads, config.kv_heads, config.head_size, 0},
        stream_bytes_(rows_.own_wide(config.channels)),
        handed_bytes_(batch.own_rows() * config.channels * size_of(batch.output.value_or(wide_type(batch.compute)))) {}

  std::int64_t handed_bytes() const { return handed_bytes_; }
  CountedTensor forward(CostTape& tape, KeptValues& kept) const {
    switch (description_.kind) {
      case BlockDescription::Kind::embedding: return left(tape, embedding(tape));
      case BlockDescription::Kind::decoder: return left(tape, decoder(tape, entered(tape), kept));
      case BlockDescription::Kind::head: return batch_.texts ? text_head(tape) : head(tape, entered(tape));
    }
    fail(ExitCode::bug, "unknown BlockDescription::Kind {}", static_cast<int>(description_.kind));
  }

 private:
  CountedTensor entered(CostTape& tape) const {
    const CountedTensor x = tape.uncounted();
    return handed_bytes_ == stream_bytes_ ? x : tape.one(cast_costs(handed_bytes_, stream_bytes_), {.arguments = {x}});
  }
  CountedTensor left(CostTape& tape, const CountedTensor& y) const {
    return handed_bytes_ == stream_bytes_ ? y : tape.one(cast_costs(stream_bytes_, handed_bytes_), {.arguments = {y}});
  }
  bool has(Role role) const {
    return std::ranges::find(description_.tensors, role, &LogicalTensor::role) != description_.tensors.end();
  }

  CountedTensor embedding(CostTape& tape) const {
    return tape.one(embedding_costs(rows_, config_.channels, config_.dropout.embedding), {});
  }
  CountedTensor norm(CostTape& tape, const CountedTensor& x) const {
    return tape.one(norm_costs(rows_, config_.channels, config_.norm), {.arguments = {x}, .saved = {x}});
  }
  CountedTensor linear(CostTape& tape, const CountedTensor& x, std::int64_t out, std::int64_t parts = 1,
                       const CountedTensor& known = {}) const {
    return tape.one(linear_costs(rows_, config_.channels, out, parts),
                    {.arguments = {x}, .saved = {x}, .known = known});
  }
  CountedTensor add_linear(CostTape& tape, const CountedTensor& residual, const CountedTensor& x, std::int64_t in,
                           const CountedTensor& known) const {
    return tape.one(add_linear_costs(rows_, in, config_.channels, config_.dropout.residual),
                    {.arguments = {x}, .saved = {x}, .residual = residual, .known = known});
  }

  CountedTensor decoder(CostTape& tape, const CountedTensor& x, KeptValues& kept) const {
    const CountedTensor first = norm(tape, x);
    CountedTensor qkv = linear(tape, first, shape_.width(), has(Role::query_bias) ? 3 : 1, kept.qkv);
    if (kept.keeps.has(Keep::projections) && !keeps_own_heads()) kept.qkv = qkv;
    if (config_.query_key_norm) qkv = tape.one(head_norm_costs(rows_, shape_), {.arguments = {qkv}, .saved = {qkv}});
    const CountedTensor attended = attend(tape, std::move(qkv), kept);
    if (kept.keeps.has(Keep::attention)) kept.attended = attended;
    const CountedTensor stream = add_linear(tape, x, attended, shape_.heads * shape_.head_size, kept.stream);
    if (kept.keeps.has(Keep::projections)) kept.stream = stream;
    const CountedTensor second = norm(tape, stream);
    if (!config_.has_experts(description_.layer)) return mlp(tape, stream, second, config_.feed_forward, kept);
    return experts(tape, stream, second, kept);
  }

  bool keeps_own_heads() const { return batch_.sequence.ulysses > 1 && !config_.query_key_norm; }
  CountedTensor attend(CostTape& tape, CountedTensor qkv, KeptValues& kept) const {
    if (batch_.texts) return tape.one(cached_attention(), {.arguments = {qkv}});
    const auto [ulysses, ring] = batch_.sequence;
    const bool apart = ulysses > 1 && ring > 1;
    CallRows rows = rows_;
    rows.all *= ulysses;
    if (ulysses > 1) {
      qkv = tape.one(to_own_heads_costs(rows_, shape_, ulysses),
                     {.arguments = {qkv}, .known = keeps_own_heads() ? kept.qkv : CountedTensor()});
      if (kept.keeps.has(Keep::projections) && keeps_own_heads()) kept.qkv = qkv;
    }
    const std::vector<CountedTensor> results =
        tape.call(attention(rows, share_of(shape_, ulysses)),
                  {.arguments = {qkv}, .saved = {qkv}, .known = apart ? kept.own_attended : kept.attended});
    qkv = {};
    if (ring > 1 || (uses_flash() && ulysses == 1)) tape.save(results.front());
    tape.hold(results.back());
    if (kept.keeps.has(Keep::attention)) kept.log_sums = results.back();
    if (kept.keeps.has(Keep::attention) && apart) kept.own_attended = results.front();
    if (ulysses == 1) return results.front();
    return tape.one(to_own_rows_costs(rows_, shape_), {.arguments = {results.front()}, .known = kept.attended});
  }
  bool uses_flash() const {
    const AttentionUse use{.compute = batch_.compute,
                           .head_size = config_.head_size,
                           .has_dropout = config_.dropout.attention > 0,
                           .is_ring = batch_.sequence.ring > 1};
    return batch_.multiprocessors > 0 && choose_gpu_attention(use).attention == GpuAttention::flash;
  }
  AttentionScratch scratch_of_gpu(const CallRows& rows, const AttentionShape& own) const {
    if (!uses_flash()) return {.forward = 0, .backward = rows.wide(own.heads)};
    const std::int64_t documents = std::max(batch_.samples, rows.all / planned_document);
    return flash_scratch(own, {.rows = rows.all,
                               .fewest_segments = batch_.samples,
                               .most_segments = std::min(batch_.samples * batch_.segments, documents),
                               .multiprocessors = batch_.multiprocessors,
                               .rotates = config_.positions == Positions::rotary,
                               .has_output = batch_.sequence.ulysses == 1});
  }
  FunctionCosts attention(const CallRows& rows, const AttentionShape& own) const {
    const int ring = batch_.sequence.ring;
    const std::int64_t at_once = ring == 1 ? batch_.length : ceil_div(batch_.length, std::int64_t{2 * ring});
    const AttentionScratch scratch =
        batch_.multiprocessors > 0
            ? scratch_of_gpu(rows, own)
            : attention_scratch(own, at_once, batch_.samples, size_of(rows.wide_dtype()), batch_.threads);
    return attention_costs(rows, own, attended_keys(config_, description_.layer, batch_.length), scratch,
                           batch_.sequence);
  }

  FunctionCosts cached_attention() const {
    const TextShape& texts = *batch_.texts;
    const std::int64_t scratch =
        cached_attention_scratch(shape_, cached_positions(config_.window_of(description_.layer), texts), texts.texts,
                                 batch_.length, size_of(rows_.wide_dtype()), batch_.threads);
    return cached_attention_costs(rows_, shape_, attended_keys(config_, description_.layer, texts.positions),
                                  batch_.multiprocessors > 0 ? 0 : scratch);
  }

  /// Stands for the sum that ends a layer, which a repetition does not compute.
  static CountedTensor unread_sum(const CountedTensor& residual, const KeptValues& kept) {
    return kept.repeated ? residual : CountedTensor();
  }

  CountedTensor mlp(CostTape& tape, const CountedTensor& residual, const CountedTensor& normalised, std::int64_t width,
                    KeptValues& kept) const {
    const std::int64_t raised_columns = (config_.gated_mlp ? 2 : 1) * width;
    const bool gates_rows = has(Role::shared_expert_gate);
    const CountedTensor raised =
        linear(tape, normalised, raised_columns, config_.gated_mlp && has(Role::up_bias) ? 2 : 1, kept.raised);
    if (kept.keeps.has(Keep::mlp)) kept.raised = raised;
    std::vector<CountedTensor> arguments{raised};
    if (gates_rows) arguments.push_back(linear(tape, normalised, 1));
    const CountedTensor activated =
        tape.one(activation_costs(rows_.narrow(raised_columns), rows_.narrow(width), gates_rows ? rows_.narrow(1) : 0),
                 {.arguments = arguments, .saved = arguments});
    return add_linear(tape, residual, activated, width, unread_sum(residual, kept));
  }

  CountedTensor experts(CostTape& tape, const CountedTensor& residual, const CountedTensor& normalised,
                        KeptValues& kept) const {
    const Experts& of = config_.experts;
    const CountedTensor sum = config_.has_shared_expert(description_.layer)
                                  ? mlp(tape, residual, normalised, of.shared_feed_forward, kept)
                                  : residual;
    const std::vector<CountedTensor> routing =
        tape.call(router_costs(rows_, config_.channels, of, aux_axes(), batch_.samples),
                  {.arguments = {normalised}, .saved = {normalised}});
    const CountedTensor &weights = routing[0], &chosen = routing[1], &places = routing[2], &offsets = routing[3];
    tape.save(chosen);
    tape.hold(weights);
    tape.hold(offsets);
    kept.experts = chosen;
    const CountedTensor rows = batch_.sharing.experts.ranks > 1 ? parallel_experts(tape, normalised, places, kept)
                                                                : own_experts(tape, normalised, places, kept);
    return tape.one(combine_costs(rows_, config_.channels, of.per_token, given_rows(), config_.dropout.residual),
                    {.arguments = {rows, weights},
                     .saved = {rows, weights, places},
                     .residual = sum,
                     .known = unread_sum(residual, kept)});
  }
  std::int64_t given_rows() const { return batch_.own_rows() * config_.experts.per_token; }
  /// Ranks that balance the experts of a layer over the samples whose rows they share; none: it is not balanced, or
  /// this rank has all their rows.
  std::vector<AxisName> aux_axes() const {
    if (config_.experts.aux_coefficient == 0 || batch_.texts) return {};
    std::vector<AxisName> axes = axes_of(batch_.sequence);
    if (batch_.sharing.row_shares() > 1) std::ranges::copy(batch_.sharing.axes(), std::back_inserter(axes));
    return axes;
  }

  CountedTensor own_experts(CostTape& tape, const CountedTensor& x, const CountedTensor& places,
                            KeptValues& kept) const {
    const std::int64_t given = given_rows(), width = config_.experts.feed_forward;
    const auto grouped = [&](const CountedTensor& rows, std::int64_t in, std::int64_t out, const CountedTensor& known) {
      return tape.one(grouped_linear_costs({given, in, out}, batch_.compute),
                      {.arguments = {rows}, .saved = {rows}, .known = known});
    };
    CountedTensor rows =
        tape.one(dispatch_costs(rows_, config_.channels, given), {.arguments = {x}, .saved = {places}});
    rows = grouped(rows, config_.channels, 2 * width, kept.expert_raised);
    if (kept.keeps.has(Keep::experts)) kept.expert_raised = rows;
    const std::int64_t activated = given * width * size_of(batch_.compute);
    rows = tape.one(activation_costs(2 * activated, activated), {.arguments = {rows}, .saved = {rows}});
    rows = grouped(rows, width, config_.channels, kept.expert_lowered);
    if (kept.keeps.has(Keep::experts)) kept.expert_lowered = rows;
    return rows;
  }
  CountedTensor parallel_experts(CostTape& tape, const CountedTensor& x, const CountedTensor& places,
                                 KeptValues& kept) const {
    const Experts& of = config_.experts;
    const ExpertSharing& sharing = batch_.sharing.experts;
    const ParallelExpertsCall call{.ranks = sharing.ranks,
                                   .experts = of.count,
                                   .channels = config_.channels,
                                   .feed_forward = of.feed_forward,
                                   .given = given_rows(),
                                   .taken = batch_.expert_rows(of.per_token),
                                   .further_rounds = most_further_rounds(sharing)};
    if (!kept.expert_table) kept.expert_table = tape.one(expert_table_costs(call), {});
    const bool keeps = kept.keeps.has(Keep::experts);
    const FirstRound first = tape.records() ? FirstRound::left_to_backward
                             : keeps        ? FirstRound::raised_as_result
                                            : FirstRound::freed;
    const std::vector<CountedTensor> results =
        tape.call(parallel_experts_costs(rows_, call, first),
                  {.arguments = {x}, .saved = {x, places, kept.expert_table}, .known = kept.expert_lowered});
    if (keeps) {
      kept.expert_raised = results.back();
      kept.expert_lowered = results.front();
    }
    return results.front();
  }

  CountedTensor head(CostTape& tape, const CountedTensor& x) const {
    const CountedTensor normalised = norm(tape, x);
    const std::int64_t columns = rows_in_memory(config_.vocabulary, description_.tensors.back().row_multiple);
    return tape.one(
        loss_costs(rows_, config_.channels, config_.vocabulary, columns, tape.records() ? most_kept_logits_bytes : 0),
        {.arguments = {normalised}, .saved = {normalised}});
  }
  CountedTensor text_head(CostTape& tape) const {
    const std::int64_t columns = rows_in_memory(config_.vocabulary, description_.tensors.back().row_multiple);
    return tape.one(text_logits_costs(rows_, batch_.texts->texts, config_.channels, config_.vocabulary, columns,
                                      batch_.output.value_or(rows_.wide_dtype())),
                    {});
  }

  const ModelConfig& config_;
  const BlockDescription& description_;
  const BatchShape& batch_;
  CallRows rows_;
  AttentionShape shape_;  // of this rank, with the heads of all ranks along ulysses
  std::int64_t stream_bytes_, handed_bytes_;
};

/// The most bytes of a pass beside those that are counted elsewhere.
std::int64_t beside(std::int64_t most, std::int64_t counted) { return std::max<std::int64_t>(0, most - counted); }

void add_training(BlockProfile& result, const BlockCalls& calls) {
  CostTape tape(CostTape::Autograd::on);
  KeptValues none;
  const CountedTensor output = calls.forward(tape, none);
  none = {};
  const std::int64_t left = tape.live().now();
  result.saved_bytes = result.input_bytes + left - result.output_bytes;
  result.forward_workspace_bytes = beside(tape.live().most(), left);
  result.deferred_bytes = tape.deferred_bytes;
  result.products = tape.products;
  result.forward_flops = tape.product_flops() + tape.forward_flops;
  result.backward_input_flops = tape.product_flops() + tape.backward_flops;
  result.backward_weight_flops = tape.product_flops();
  tape.live().forget_most();
  tape.backward(output);
  result.backward_workspace_bytes = beside(tape.live().most(), left + result.input_bytes);
  result.exchanges = tape.exchanges;
}

/// A forward that leaves nothing.
void add_inference(BlockProfile& result, const BlockCalls& calls) {
  CostTape tape(CostTape::Autograd::off);
  KeptValues none;
  const CountedTensor output = calls.forward(tape, none);
  result.inference_workspace_bytes = beside(tape.live().most(), result.output_bytes);
  result.products = tape.products;
  result.forward_flops = tape.product_flops() + tape.forward_flops;
  result.exchanges.forward = tape.exchanges.forward;
}

/// A forward that keeps values for its repetition, and that repetition.
Recomputation recomputation(const BlockProfile& costs, const BlockCalls& calls, KeepSet keeps) {
  KeptValues kept{.keeps = keeps};
  Recomputation result;
  CostTape first(CostTape::Autograd::off);
  {
    const CountedTensor output = calls.forward(first, kept);
    result.kept_bytes = first.live().now() - costs.output_bytes;
  }
  result.workspace_bytes = beside(first.live().most(), costs.output_bytes + result.kept_bytes);
  kept.repeated = true;
  kept.keeps = {};
  CostTape again(CostTape::Autograd::on);
  calls.forward(again, kept);
  result.flops = again.product_flops() + again.forward_flops;
  result.exchanges = again.exchanges.forward;
  return result;
}

}  // namespace

std::int64_t cached_positions(std::int64_t window, const TextShape& texts) {
  return window > 0 ? std::min(texts.positions, window + texts.piece - 1) : texts.positions;
}

BlockProfile profile(const Architecture& architecture, std::size_t block, const BatchShape& batch) {
  invariant(block < architecture.blocks.size(), "the profiled block exists");
  const BlockDescription& description = architecture.blocks[block];
  const BlockCalls calls(architecture.config, description, batch);
  BlockProfile result;
  for (const LogicalTensor& tensor : description.tensors)
    if (tensor.alias_of.empty()) result.parameter_elements += elements(tensor.shape);
  result.parameter_bytes = result.parameter_elements * size_of(batch.compute);
  result.input_bytes = description.kind == BlockDescription::Kind::embedding ? 0 : calls.handed_bytes();
  result.output_bytes = description.kind == BlockDescription::Kind::head ? size_of(DType::f64) : calls.handed_bytes();
  if (batch.texts) {
    add_inference(result, calls);
    if (description.kind == BlockDescription::Kind::decoder) {
      const ModelConfig& config = architecture.config;
      result.cache_bytes = batch.texts->texts * 2 * config.kv_heads * config.head_size *
                           cached_positions(config.window_of(description.layer), *batch.texts) * size_of(batch.compute);
    }
    return result;
  }
  add_training(result, calls);
  const std::size_t keep_sets = description.kind == BlockDescription::Kind::decoder ? KeepSet::count : 0;
  for (std::size_t index = 0; index < keep_sets; ++index)
    result.recomputations.push_back(recomputation(result, calls, KeepSet::at(index)));
  const Recomputation plain = recomputation(result, calls, {});
  result.inference_workspace_bytes = plain.workspace_bytes + plain.kept_bytes;
  return result;
}

}  // namespace lockstep
