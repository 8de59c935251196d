// A training job on the ranks of a test, divided as a composition says, and what one rank computes instead.
#pragma once

#include "architecture/context_parallel.hpp"
#include "architecture/tensor_parallel.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "comm/heartbeat.hpp"
#include "composition.hpp"
#include "device/device.hpp"
#include "engine/engine.hpp"
#include "engine/make_model_plan.hpp"
#include "harness/mpi_test.hpp"
#include "harness/tiny_models.hpp"
#include "mpi/engine/continued_texts.hpp"
#include "program/batch_plan.hpp"
#include "program/memory_estimate.hpp"
#include "tensor/functions/kernel_table.hpp"

#include <ATen/ops/dot.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::test {

constexpr std::int64_t length = 11;
constexpr std::int64_t global_batch = 16;
constexpr std::int64_t most_documents = length;  // of a sample
constexpr std::int64_t vocabulary = 29;          // a prime: no number of ranks divides it

/// A family whose models have frozen tensors, and units of parts of blocks.
constexpr std::string_view in_parts = " in parts";
/// One that is trained with dropout.
constexpr std::string_view with_dropout = " with dropout";

/// A family that is given samples of several documents, which attention keeps apart.
constexpr std::string_view in_documents = " in documents";

/// One whose labels are smoothed.
constexpr std::string_view with_smooth_labels = " with smooth labels";
inline double smoothing_of(std::string_view family) { return family.ends_with(with_smooth_labels) ? 0.3 : 0; }

/// Models that a test has made, by the name that a composition calls them.
inline std::map<std::string, Architecture>& drawn_models() {
  static std::map<std::string, Architecture> models;
  return models;
}

inline Architecture architecture_of(const std::string& family) {
  if (const auto drawn = drawn_models().find(family); drawn != drawn_models().end()) return drawn->second;
  if (family.ends_with(with_smooth_labels))
    return architecture_of(family.substr(0, family.size() - with_smooth_labels.size()));
  if (family.ends_with(in_documents)) return architecture_of(family.substr(0, family.size() - in_documents.size()));
  if (family == "gpt2") return tiny_gpt2({.vocabulary = vocabulary, .positions = 13, .width = 14, .layers = 3});
  if (family == "deep gpt2") return tiny_gpt2({.vocabulary = vocabulary, .positions = 13, .width = 8, .layers = 9});
  if (family == "llama") return tiny_llama({.vocabulary = vocabulary, .width = 12, .intermediate = 22});
  if (family == "deep llama")
    return tiny_llama({.vocabulary = vocabulary, .width = 8, .layers = 8, .intermediate = 14});
  if (family == "shared llama" || family == "tied llama")  // among 2, 3, 4 or 6 ranks, its widths unevenly
    return tiny_llama({.vocabulary = vocabulary,
                       .width = 24,
                       .layers = 5,
                       .heads = 12,
                       .intermediate = 22,
                       .key_value_heads = 12,
                       .tied = family == "tied llama"});
  if (family == "windowed llama") {  // of which half the layers see the last few tokens alone
    Architecture architecture = architecture_of("shared llama");
    architecture.config.windows.assign(static_cast<std::size_t>(architecture.config.layers), 0);
    for (std::size_t layer = 0; layer < architecture.config.windows.size(); layer += 2)
      architecture.config.windows[layer] = 4;
    return architecture;
  }
  if (family == "shared gpt2")
    return tiny_gpt2({.vocabulary = vocabulary, .positions = 13, .width = 24, .layers = 3, .heads = 12});
  if (family == "grouped llama" ||
      family == "shared qwen3")  // with two key heads: among 4 or 6 ranks some have the same
    return (family == "shared qwen3" ? tiny_qwen3 : tiny_llama)(
        {.vocabulary = vocabulary, .width = 24, .layers = 3, .heads = 12, .intermediate = 22, .key_value_heads = 2});
  if (family == "mixtral") return tiny_mixtral({.vocabulary = vocabulary, .width = 12, .intermediate = 9});
  if (family == "deep qwen3_moe")
    return tiny_qwen3_moe({.vocabulary = vocabulary, .width = 8, .layers = 8, .intermediate = 14, .tied = true});
  if (family == "balanced mixtral")  // whose rows 2, 3, 4 or 6 ranks may share
    return tiny_mixtral({.vocabulary = vocabulary,
                         .width = 24,
                         .layers = 3,
                         .heads = 12,
                         .intermediate = 9,
                         .key_value_heads = 12,
                         .aux = 0.5});
  if (family == "four experts" || family == "six experts")  // that ranks may share out
    return tiny_mixtral({.vocabulary = vocabulary,
                         .width = 24,
                         .layers = 2,
                         .heads = 12,
                         .intermediate = 5,
                         .key_value_heads = 12,
                         .aux = 0.5,
                         .experts = family == "six experts" ? 6 : 4});
  if (family == "balanced qwen3_moe")
    return tiny_qwen3_moe(
        {.vocabulary = vocabulary, .width = 8, .layers = 8, .intermediate = 14, .tied = true, .aux = 0.5});
  if (family == "deep qwen2_moe")
    return tiny_qwen2_moe({.vocabulary = vocabulary, .width = 8, .layers = 8, .intermediate = 14, .tied = true});
  if (family == "balanced qwen2_moe")  // whose rows 2, 3, 4 or 6 ranks may share
    return tiny_qwen2_moe({.vocabulary = vocabulary,
                           .width = 24,
                           .layers = 4,
                           .heads = 12,
                           .intermediate = 14,
                           .key_value_heads = 12,
                           .aux = 0.5});
  if (family == "large llama")  // 76 MiB of weights in fp32
    return tiny_llama(
        {.vocabulary = 512, .width = 512, .layers = 6, .heads = 8, .intermediate = 1408, .key_value_heads = 4});
  if (family.ends_with(with_dropout)) {
    Architecture architecture = architecture_of(family.substr(0, family.size() - with_dropout.size()));
    architecture.config.dropout = {.embedding = 0.1, .attention = 0.2, .residual = 0.3};
    return architecture;
  }
  invariant(family.ends_with(in_parts), "a composition names a family that the tests know");
  Architecture architecture = architecture_of(family.substr(0, family.size() - in_parts.size()));
  const auto has = [](const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; };
  // Of a norm the weight, of linear layers all or one of several side by side, and of gpt2 tables.
  const auto frozen = [=](const std::string& name) {
    return has(name, "ln_1.weight") || has(name, "input_layernorm") || has(name, "k_proj") || has(name, "c_attn") ||
           has(name, "c_fc") || has(name, "wpe");
  };
  mark(architecture, {.freezes = frozen, .updated_by = {}, .units = {{"mlp", [=](const std::string& name) {
                                                                        return has(name, "mlp");
                                                                      }}}});
  return architecture;
}

/// The seed of a family's weights: another one where the first draw will not do.
inline std::uint64_t& weights_of(const std::string& family) {
  static std::map<std::string, std::uint64_t> seeds;
  return seeds.try_emplace(family, 7).first->second;
}

/// Samples of a step: random tokens, labels that count in a ragged pattern; samples 0 to 3 have none, so that with four
/// ranks or more one has no valid token.
inline Batch samples(std::int64_t step, const SampleRange& range, std::int64_t tokens = length,
                     bool documents = false) {
  const RandomStream random(99, "samples");
  Batch batch;
  batch.samples = std::max<std::int64_t>(range.count, 1);
  batch.length = tokens;
  for (std::int64_t i = 0; i < batch.samples; ++i) {
    const std::int64_t index = range.count == 0 ? 0 : range.begin + i;  // sample 0 counts for nothing
    batch.documents.push_back(i * tokens);
    std::int64_t begin = 0;  // of the document; a token may be one
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto at = static_cast<std::uint64_t>((step * global_batch + index) * length + t);
      batch.tokens.push_back(static_cast<std::int32_t>(random.below(2 * at, vocabulary)));
      const bool counts = index > 3 && random.uniform(2 * at + 1) < 0.6;
      if (documents && t > 0 && random.uniform(5 * at + 3) < 0.4) {
        begin = t;
        batch.documents.push_back(i * tokens + t);
      }
      batch.labels.push_back(counts ? static_cast<std::int32_t>(random.below(3 * at + 1, vocabulary)) : ignored_label);
      batch.positions.push_back(static_cast<std::int32_t>(t - begin));
      batch.valid_tokens += counts ? 1 : 0;
    }
    batch.numbers.push_back(range.count == 0 ? -1 : index);
  }
  batch.documents.push_back(batch.samples * tokens);
  return batch;
}

/// Two texts of different lengths.
inline std::vector<SampledText> begun_texts(const SampleOptions& options, const ModelConfig& model) {
  const TextRules rules{.positions = model.max_positions};
  return {SampledText({3, 1, 4}, options, rules), SampledText({2}, options, rules)};
}

/// A training set-up on the ranks of a communicator.
class Job {
 public:
  /// `mutate` changes what the engine runs, not what it is expected to do; `alter` the model on this rank.
  Job(std::unique_ptr<Communicator> ranks, const Composition& how, Precision precision, std::optional<double> clip,
      const std::function<void(RankClass&)>& mutate = {}, const std::function<void(Architecture&)>& alter = {})
      : session_(std::move(ranks)),
        rank_(session_.world().rank()),
        mesh_(mesh_of(how)),
        sharding_(sharding_of(how)),
        sequence_(sequence_place(mesh_, rank_)),
        ragged_(how.ragged),
        documents_(std::string_view(how.family).find(in_documents) != std::string_view::npos),
        smoothing_(smoothing_of(how.family)),
        batches_(plan_batch(global_batch, how.data_ranks(), how.micro_batch)),
        types_(types_of(how, precision)),
        architecture_(cut(updated(altered(architecture_of(how.family), alter), options(how)), sharding_)),
        buckets_(buckets_of(how)),
        programs_(make_catalogue(mesh_, plan(step_shape(), buckets_), program_options(how, clip.has_value()),
                                 TextPlans{plan(prompt_pass(texts()), buckets_), plan(token_pass(texts()), buckets_)})),
        right_(programs_.train),
        model_(architecture_, precision, types_.states, buckets_, {mesh_, sharding_, rank_}, programs_.parts,
               unit_memory_of(how.offload, how.in_backward)),
        optimizer_(make_optimizer(options(how), model_.parameters())),
        transport_(make_transport(session_, programs_)),
        engine_(model_, *optimizer_, programs_, session_, transport_, clip, how.reduce) {
    model_.initialise(weights_of(how.family));
    this_device().wait(this_device().record(DeviceQueue::compute));  // no copy of it takes memory any more
    if (mutate) mutate(programs_.train.classes.front());
  }

  /// Its gradients are measured along.
  StepOutcome step(std::int64_t number) {
    std::vector<LogicalTensor> trained = tensors();
    std::erase_if(trained, [](const LogicalTensor& tensor) { return !tensor.trained; });
    gradients_ = std::make_shared<TensorStatistics>(trained);
    const StepProgram& program = programs_.pick(number, ProgramPhase::training);
    const std::int64_t declared = device_waits(program, program.class_of(rank_)), before = this_device().counts().waits;
    const StepOutcome outcome = engine_.run_step({.step = number, .micro_batches = part(number), .valid_tokens = 0},
                                                 {.step = number,
                                                  .valid_tokens = valid_tokens(number),
                                                  .samples = global_batch,
                                                  .lr = 1e-3,
                                                  .seed = 3,
                                                  .loss = {.smoothing = smoothing_},
                                                  .failure = nullptr,
                                                  .gradients = gradients_});
    if (!this_device().properties().is_host) BOOST_TEST(this_device().counts().waits - before == declared);
    return outcome;
  }
  /// Statistics of the last step's gradients. Collective, once a step.
  const TensorStatistics& gradients() {
    gradients_->sum_over(session_.world());
    return *gradients_;
  }
  /// The same of the weights. Collective.
  TensorStatistics weights() {
    TensorStatistics weights(tensors());
    add_weights(weights, model_, rank_);
    weights.sum_over(session_.world());
    return weights;
  }
  EvaluationOutcome evaluate(std::int64_t number) { return engine_.evaluate(part(number), 0); }
  /// Of a micro-batch that all ranks read, where a step has one.
  double loss_of(const Batch& batch) { return engine_.evaluate({batch}, 0).loss_sum; }
  /// Two texts that the model continues at once; how many tokens this rank drew is counted.
  std::vector<std::vector<std::int32_t>> continued(const SampleOptions& options, int& draws) {
    std::vector<SampledText> all = begun_texts(options, model_.config());
    last_rows_ = continue_all(engine_, model_, texts(), all, [&](std::size_t text, std::span<const double> logits) {
      ++draws;
      return all[text].draw(logits);
    });
    std::vector<std::vector<std::int32_t>> tokens;
    for (const SampledText& text : all) tokens.push_back(text.tokens());
    return tokens;
  }
  const Model& model() const { return model_; }
  const StepProgram& program() const { return programs_.train; }
  /// The most that a step needs.
  MemoryUse peak(Arena arena) const { return memory_of(programs_.train.class_of(rank_), arena); }
  /// Bytes that a rank holds for the whole run, of a kind or in all.
  std::int64_t planned(Arena arena, std::optional<SlotKind> kind = {}) const {
    std::int64_t sum = 0;
    for (const Slot& slot : programs_.train.class_of(rank_).slots)
      if (slot.arena == arena && lives_all_run(slot.kind) && (!kind || slot.kind == *kind)) sum += slot.bytes;
    return sum;
  }
  std::vector<LogicalTensor> tensors() const { return stored_tensors(architecture_); }
  /// The reduced gradient of a whole parameter, put together from the boxes of all ranks. Collective.
  at::Tensor whole_gradient(const LogicalTensor& of) {
    return whole(of, [](const Parameter& parameter) { return parameter.gradient(); });
  }
  at::Tensor whole_weight(const LogicalTensor& of) {
    return whole(of, [](const Parameter& parameter) { return parameter.master(); });
  }
  /// Of a step.
  std::optional<std::string> trace_fault(std::int64_t step = 0) const {
    MicroBatchTokens tokens{
        .planned = most_rows_of_each(sequence_.ranks, batches_.micro_batch, length, documents_ ? most_documents : 1)};
    for (const Batch& batch : part(step)) {
      tokens.tokens.push_back(rows_of_each(sequence_.ranks, batch.documents));
      tokens.samples.push_back(batch.samples);
    }
    const StepProgram& program = programs_.pick(step, ProgramPhase::training);
    return trace_fault(&program == &programs_.train ? right_ : program, tokens);
  }
  /// Of the last pass over texts, whose rows each rank along sequence axes has.
  std::optional<std::string> text_trace_fault() const {
    return trace_fault(programs_.token, {.planned = texts().texts, .tokens = {last_rows_}, .samples = {last_rows_}});
  }
  Session& session() { return session_; }
  /// Equal on ranks that hold the same of a model, each in its cell.
  std::string place_in_cell() const { return cell_name(mesh_, rank_, {"dp_replicate", "dp_node"}); }

 private:
  std::optional<std::string> trace_fault(const StepProgram& right, const MicroBatchTokens& tokens) const {
    return difference(right, expect_trace(right, rank_, types_, tokens), engine_.trace());
  }
  static Mesh mesh_of(const Composition& how) {
    std::vector<std::pair<AxisName, int>> axes;
    if (how.stages > 1) axes.emplace_back("pp", how.stages);
    axes.emplace_back("dp_replicate", how.replicas);
    if (how.node > 1 || !how.local.axes.empty()) axes.emplace_back("dp_node", how.node);
    if (how.inner > 1)
      axes.insert(axes.end(), {{"dp_shard_outer", how.shards / how.inner}, {"dp_shard_inner", how.inner}});
    else if (how.shards > 1)
      axes.emplace_back("dp_shard", how.shards);
    if (how.ring > 1) axes.emplace_back("ring", how.ring);
    if (how.ulysses > 1) axes.emplace_back("ulysses", how.ulysses);
    const BlockSharing blocks = sharing_among(how.tensor, architecture_of(how.family).config);
    if (blocks.ranks > 1) axes.emplace_back("tp", blocks.ranks / blocks.key_replicas);
    if (blocks.key_replicas > 1) axes.emplace_back("tp_keys", blocks.key_replicas);
    Mesh mesh = make_mesh("world", axes);
    if (how.experts > 1) divide_experts(mesh, how.experts, how.apart, is_cut(how));
    return mesh;
  }
  static bool is_cut(const Composition& how) { return how.shards > 1 || how.folds; }
  static Architecture altered(Architecture architecture, const std::function<void(Architecture&)>& alter) {
    pad_vocabulary(architecture, this_device().properties().vocabulary_multiple);
    if (alter) alter(architecture);
    return architecture;
  }
  /// As the optimizer wants each tensor.
  static Architecture updated(Architecture architecture, const OptimizerOptions& options) {
    for (BlockDescription& block : architecture.blocks) {
      for (LogicalTensor& tensor : block.tensors) {
        tensor.update = update_rule_index(options, tensor);
        if (tensor.trained) tensor.update_needs = needs_of(options, tensor);
      }
    }
    return architecture;
  }
  static Architecture cut(Architecture architecture, const Sharding& sharding) {
    cut_over(architecture, sharding.blocks);
    return architecture;
  }
  static UnitTypes types_of(const Composition& how, Precision precision) {
    UnitTypes types = unit_types(precision, states_of(options(how), master_dtype(precision)));
    types.reduce = how.reduce;
    return types;
  }
  static Sharding sharding_of(const Composition& how) {
    Sharding sharding;
    if (how.inner > 1)
      sharding = {{"dp_shard_outer", "dp_shard_inner"}, how.shards, {"dp_shard_inner"}, how.inner};
    else if (how.shards > 1)
      sharding = {{"dp_shard"}, how.shards};
    for (const auto& [axis, ranks] : {std::pair("ring", how.ring), {"ulysses", how.ulysses}}) {
      if (!how.folds || ranks == 1) continue;
      sharding.axes.emplace_back(axis);
      sharding.shards *= ranks;
    }
    sharding.blocks = sharing_among(how.tensor, architecture_of(how.family).config, how.sequence);
    const int others = how.ranks() / how.stages / how.experts / (how.local.axes.empty() ? 1 : how.replicas);
    if (how.experts > 1) sharding.blocks.experts = {how.experts, is_cut(how) ? others : 1, how.capacity};
    return sharding;
  }
  static OptimizerOptions options(const Composition& how) {
    OptimizerOptions options;
    options.name = how.optimizer;
    options.eps = 1e-4;  // keeps Adam's first steps from turning rounding of tiny gradients into steps of full size
    options.adafactor_eps = {1e-10, 1e-3};  // likewise
    options.adafactor_scale = true;
    return options;
  }
  /// Prompts of three tokens and of one are computed in pieces of two.
  TextShape texts() const { return {.texts = 2, .piece = 2, .positions = architecture_.config.max_positions}; }
  MicroBatchShape step_shape() const {
    return {.samples = batches_.micro_batch, .length = length, .segments = documents_ ? most_documents : 1};
  }
  Buckets buckets_of(const Composition& how) const {
    if (how.bucket_bytes == 0) return {};
    const ModelPlan blocks = plan(step_shape(), {});
    return {how.bucket_bytes,
            begins_of(pipeline_of(mesh_, blocks, program_options(how, false), ProgramPhase::training).stages)};
  }
  ModelPlan plan(const MicroBatchShape& shape, const Buckets& buckets) const {
    MicroBatchShape own = shape;
    if (!own.texts) own.sequence = sequence_.ranks;
    check_heads(architecture_.config, sharding_.blocks.ranks, own.sequence);
    return plan_of(architecture_, types_, own, buckets, {}, sharding_);
  }
  ProgramOptions program_options(const Composition& how, bool clips) const {
    ProgramOptions options;
    options.one_queue = nccl_in_use() != nullptr;
    options.micro_batches = options.eval_micro_batches = static_cast<int>(batches_.accumulation);
    options.recompute = how.recompute;
    options.pipeline = {.schedule = how.schedule, .chunks = how.chunks, .passes = how.passes, .stages = {}};
    options.shards = {how.zero == 3, how.zero == 3 && how.after_backward, how.accumulate, how.prefetch};
    options.update = {
        .clips = clips, .heartbeat_bytes = heartbeat_bytes_of(architecture_.config), .in_backward = how.in_backward};
    options.eval_reduction_bytes = heartbeat_bytes;
    options.draw_bytes = draw_bytes_of(texts().texts);
    options.local = how.local;
    options.offload = how.offload;
    return options;
  }
  std::vector<Batch> part(std::int64_t step) const {
    std::vector<Batch> parts;
    const std::vector<Rank> readers =  // of other samples
        group_along(mesh_, rank_, {"dp_replicate", "dp_node", "dp_shard", "dp_shard_outer", "dp_shard_inner"});
    const std::int64_t share = std::ranges::find(readers, rank_) - readers.begin();
    for (std::int64_t i = 0; i < batches_.accumulation; ++i)
      parts.push_back(
          samples(step, samples_of(batches_, share, i), ragged_ ? length - 3 * (i % 3) : length, documents_));
    return parts;
  }
  std::int64_t valid_tokens(std::int64_t step) const {
    if (!ragged_) return samples(step, {0, global_batch}).valid_tokens;
    std::int64_t all = 0;  // of the one data rank
    for (const Batch& batch : part(step)) all += batch.valid_tokens;
    return all;
  }

  at::Tensor whole(const LogicalTensor& of, const std::function<at::Tensor(const Parameter&)>& mine) {
    std::string text;  // begin and extent of this rank's box, and its values
    const std::size_t dims = view_of(of).size(), head = 2 * dims * sizeof(std::int64_t);
    for (const Parameter* parameter : model_.parameters()) {
      if (parameter->name() != of.name || parameter->shard_elements() == 0) continue;
      for (const Shape* side : {&parameter->box().begin, &parameter->box().extent})
        text.append(reinterpret_cast<const char*>(side->data()), head / 2);
      const at::Tensor held = mine(*parameter).cpu();
      const std::span<std::byte> bytes = bytes_of(held);
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    at::Tensor result = at::full(view_of(of), std::nan(""), at::TensorOptions().dtype(master_type(model_.precision())));
    for (const std::string& part : session_.world().all_gather(text)) {
      if (part.empty()) continue;
      Shape begin(dims), extent(dims);
      std::memcpy(begin.data(), part.data(), head / 2);
      std::memcpy(extent.data(), part.data() + head / 2, head / 2);
      at::Tensor place = result;
      for (std::size_t dim = 0; dim < dims; ++dim)
        place = place.narrow(static_cast<std::int64_t>(dim), begin[dim], extent[dim]);
      const at::Tensor values = at::empty(extent, result.options());
      std::memcpy(values.mutable_data_ptr(), part.data() + head, part.size() - head);
      place.copy_(values);
    }
    return result.view(of.shape);
  }

  Session session_;
  Rank rank_;
  Mesh mesh_;
  Sharding sharding_;
  SequencePlace sequence_;
  bool ragged_, documents_;
  double smoothing_;  // of labels
  BatchPlan batches_;
  UnitTypes types_;
  Architecture architecture_;
  Buckets buckets_;
  Catalogue programs_;
  StepProgram right_;
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  Transport transport_;
  Engine engine_;
  std::int64_t last_rows_ = 0;                   // of the last pass over texts
  std::shared_ptr<TensorStatistics> gradients_;  // of the last step
};

inline double norm_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.cpu().flatten().to(at::kDouble);
  return std::sqrt(at::dot(flat, flat).item<double>());
}

/// The most likely tokens; drawn ones, up to the last position of the models.
inline std::vector<SampleOptions> ways_to_sample() {
  SampleOptions greedy, seeded;
  greedy.max_tokens = 6;
  greedy.temperature = 0;
  seeded.max_tokens = 18;
  seeded.temperature = 1.5;
  seeded.seed = 11;
  return {greedy, seeded};
}

/// What one rank has: outcomes of 20 steps; of the first the gradients, an evaluation and texts after it.
struct Reference {
  std::vector<StepOutcome> steps;
  std::map<std::string, at::Tensor> gradients;
  double all_norm = 0;
  double eval_loss = 0;
  std::vector<std::vector<std::vector<std::int32_t>>> texts;  // by way to sample
};

/// By how much the probability of an expert that a token goes to was above that of one that it does not go to, at the
/// least, since it was set.
inline double& least_routing_margin() {
  static double margin = 1;
  return margin;
}

/// route, which notes the margin.
inline void route_noting_margins(const double* logits, const RoutingShape& shape, Choose choose, std::int32_t* chosen,
                                 double* weights, double* probabilities) {
  route(logits, shape, choose, chosen, weights, probabilities);
  if (shape.per_token == shape.experts) return;
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    std::vector<double> all(probabilities + token * shape.experts, probabilities + (token + 1) * shape.experts);
    std::ranges::sort(all, std::greater{});
    const auto last = all.begin() + shape.per_token;
    least_routing_margin() = std::min(least_routing_margin(), *std::prev(last) - *last);
  }
}

/// By less a choice is all but a tie: rounding, which differs with the way to divide a step, may decide it.
constexpr double least_margin = 1e-9;

/// While it lives routers note their margins.
class NotedMargins {
 public:
  NotedMargins() {
    least_routing_margin() = 1;
    Kernels<double> noting = plain_;
    noting.route = route_noting_margins;
    register_kernels(at::kCPU, noting);
  }
  ~NotedMargins() { register_kernels(at::kCPU, plain_); }
  NotedMargins(const NotedMargins&) = delete;
  NotedMargins& operator=(const NotedMargins&) = delete;

 private:
  Kernels<double> plain_ = kernels_on<double>(at::kCPU);
};

/// How many models with experts have been drawn as references, and how many of them again.
struct Draws {
  int made = 0, again = 0;
};
inline Draws& draws() {
  static Draws draws;
  return draws;
}

/// What `compute` gives, in fp64 on one rank, with weights of the family by which all choices of experts are clear.
template <class Compute>
auto with_clear_choices(const std::string& family, const Compute& compute) {
  const NotedMargins noted;
  for (int tries = 1;; ++tries) {
    least_routing_margin() = 1;
    auto result = compute();
    if (least_routing_margin() < 1) ++draws().made;
    if (least_routing_margin() >= least_margin) return result;
    invariant(tries < 20, "some weights of a family make all choices of experts clear");
    ++draws().again;
    ++weights_of(family);
  }
}

inline Reference make_reference(const std::string& family) {
  Reference reference;
  Job one(solo_communicator(), {.micro_batch = global_batch, .family = family.c_str()}, Precision::fp64, 0.5);
  for (std::int64_t step = 0; step < 20; ++step) {
    reference.steps.push_back(one.step(step));
    if (step > 0) continue;
    double sum = 0;
    for (const Parameter* parameter : one.model().parameters()) {
      if (!parameter->is_trained()) continue;
      reference.gradients[parameter->name()] = parameter->gradient().clone().cpu();
      sum += std::pow(norm_of(parameter->gradient()), 2);
    }
    reference.all_norm = std::sqrt(sum);
    reference.eval_loss = one.evaluate(3).loss_sum;
    for (const SampleOptions& options : ways_to_sample()) {
      reference.texts.emplace_back();
      for (const SampledText& text : begun_texts(options, one.model().config()))
        reference.texts.back().push_back(continued_anew(one.model(), text));
    }
  }
  return reference;
}

inline const Reference& reference_of(const std::string& family) {
  static std::map<std::string, Reference> known;
  const auto [found, fresh] = known.try_emplace(family);
  if (fresh) found->second = with_clear_choices(family, [&] { return make_reference(family); });
  return found->second;
}

inline std::unique_ptr<Communicator> all_ranks() { return world().split(0, "world"); }

}  // namespace lockstep::test
