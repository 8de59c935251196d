// Ways to divide a step among ranks, each against one rank: the same losses, norms and gradients in fp64, and against
// plain data parallelism bit for bit where only the place of memory differs. The table is printed with its times.
#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "comm/heartbeat.hpp"
#include "engine/engine.hpp"
#include "engine/make_model_plan.hpp"
#include "exchange/hf_config.hpp"
#include "harness/mpi_test.hpp"
#include "model/sampled_text.hpp"
#include "program/batch_plan.hpp"

#include <ATen/ops/dot.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sub.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(compositions)

using namespace lockstep;

namespace {

constexpr std::int64_t length = 11;
constexpr std::int64_t global_batch = 16;
constexpr std::int64_t vocabulary = 29;  // a prime: no number of ranks divides it

/// One way to divide a step.
struct Composition {
  int replicas = 1, shards = 1;
  int zero = 3;                // of shards
  int inner = 1;               // shards that gather weights from each other alone after a forward
  bool after_backward = true;  // of ZeRO-3: weights are let go
  Accumulate accumulate = Accumulate::whole;
  int prefetch = 1;
  std::int64_t micro_batch = 2;
  RecomputePolicy recompute = RecomputePolicy::none;
  std::int64_t bucket_bytes = 0;
  const char* family = "gpt2";
  std::optional<DType> reduce = {};  // type of sums over ranks; absent: of the master weights
  std::int64_t steps = 3;
  int stages = 1;  // ranks along pp
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;  // stages a rank
  int passes = 1;
  bool in_backward = false;  // the optimizer
  int node = 1;              // replicas of a cell, each with its shards
  LocalOptions local = {};
  OptimizerName optimizer = OptimizerName::adamw;

  int data_ranks() const { return replicas * node * shards; }
  int ranks() const { return stages * data_ranks(); }
  std::string text() const {
    std::string how = shards == 1 ? fmt::format("DDP {}", replicas)
                                  : fmt::format("{}ZeRO-{} {}", replicas > 1 ? fmt::format("HSDP {} × ", replicas) : "",
                                                zero, shards);
    if (shards > 1) how += fmt::format(", prefetch {}", prefetch);
    if (inner > 1) how += fmt::format(", kept by {}", inner);
    if (zero == 3 && !after_backward) how += ", kept after backward";
    if (stages > 1)
      how += fmt::format(", {} stages of {}{}", stages * chunks, name_of(schedule),
                         passes > 1 ? fmt::format(" in {} passes", passes) : "");
    const char* kept = accumulate == Accumulate::whole ? "whole" : accumulate == Accumulate::shards ? "shards" : "sums";
    how += fmt::format(", accumulate {}, micro-batch {}", kept, micro_batch);
    if (recompute == RecomputePolicy::block) how += ", recompute";
    if (in_backward) how += ", optimizer in backward";
    if (!local.axes.empty())
      how += fmt::format(", local from {}, period {}, {} replicas a cell", local.start_step, local.period, node);
    if (bucket_bytes > 0) how += fmt::format(", buckets of {} B", bucket_bytes);
    return fmt::format("{}, {}", how, family);
  }
};

/// Pipelines by themselves and of data parallelism of each kind.
std::vector<Composition> pipelines() {
  std::vector<Composition> all;
  struct Size {
    int stages, replicas, shards;
  };
  for (const auto& [stages, replicas, shards] : {Size{2, 1, 1},
                                                 {3, 1, 1},
                                                 {4, 1, 1},
                                                 {2, 2, 1},
                                                 {2, 1, 2},
                                                 {5, 1, 1},
                                                 {3, 2, 1},
                                                 {2, 1, 3},
                                                 {3, 1, 2},
                                                 {2, 2, 2},
                                                 {4, 1, 2},
                                                 {4, 2, 1}}) {
    int zero = stages % 3 + 1;
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      Composition one{.replicas = replicas, .shards = shards, .zero = zero, .family = "deep llama"};
      one.stages = stages;
      one.schedule = schedule;
      one.chunks = one_stage ? 1 : 2;
      if (all.size() % 2 == 0 || schedule == PipelineSchedule::zbv) one.family = "deep gpt2";  // tied
      if (replicas * shards == 1 && stages < 4) one.steps = 20;
      if (schedule == PipelineSchedule::gpipe) one.recompute = RecomputePolicy::block;
      if (stages == 2 && one_stage && replicas * shards != 3) one.passes = 2;
      one.accumulate =
          std::array{Accumulate::sums, Accumulate::shards, Accumulate::whole}[static_cast<std::size_t>(zero - 1)];
      one.prefetch = zero % 3;
      zero = zero % 3 + 1;
      all.push_back(one);
    }
  }
  Composition kept{.shards = 4, .inner = 2, .accumulate = Accumulate::shards, .family = "deep llama"};
  kept.stages = 2;
  kept.chunks = 2;
  kept.schedule = PipelineSchedule::interleaved_zero_bubble;
  all.push_back(kept);
  return all;
}

/// Every composition that the tests know, for all numbers of ranks.
std::vector<Composition> all_compositions() {
  std::vector<Composition> all = pipelines();
  for (const auto& [replicas, shards] :
       {std::pair{1, 2}, {1, 3}, {1, 4}, {2, 2}, {1, 5}, {1, 6}, {3, 2}, {2, 3}, {1, 8}, {2, 4}, {4, 2}}) {
    for (int zero = 1; zero <= 3; ++zero) {
      const bool tied = (replicas + shards + zero) % 2 == 0;
      Composition one{.replicas = replicas, .shards = shards, .zero = zero, .family = tied ? "gpt2" : "llama"};
      one.steps = replicas == 1 ? 20 : 3;
      if (shards > 4 || replicas > 2) one.steps = 3;
      all.push_back(one);
      one.steps = 3;
      one.accumulate = replicas > 1 && zero != 2 ? Accumulate::sums : Accumulate::shards;
      one.micro_batch = 1;
      one.prefetch = zero == 3 ? 2 : 0;
      one.family = tied ? "llama" : "gpt2";
      all.push_back(one);
      if (zero == 3) {
        one.recompute = RecomputePolicy::block;
        one.prefetch = 0;
        all.push_back(one);
        one.accumulate = Accumulate::whole;
        one.bucket_bytes = 1 << 20;
        all.push_back(one);
        one.bucket_bytes = 0;
        one.after_backward = false;
        if (replicas == 1) all.push_back(one);
        for (int inner = 2; inner < shards; ++inner) {
          if (shards % inner != 0) continue;
          one.inner = inner;
          one.after_backward = inner == 2;
          one.prefetch = 1;
          one.accumulate = inner == 2 ? Accumulate::shards : Accumulate::whole;
          one.recompute = inner == 2 ? RecomputePolicy::none : RecomputePolicy::block;
          all.push_back(one);
        }
      }
    }
  }
  for (const auto& [replicas, shards] : {std::pair{2, 1}, {1, 2}, {1, 3}, {2, 2}, {1, 4}})
    for (const char* family : {"gpt2 in parts", "llama in parts"})
      all.push_back(
          {.replicas = replicas, .shards = shards, .accumulate = Accumulate::sums, .micro_batch = 1, .family = family});
  all.push_back({.shards = 2,
                 .accumulate = Accumulate::shards,
                 .family = "deep llama in parts",
                 .stages = 2,
                 .schedule = PipelineSchedule::zbv,
                 .chunks = 2});
  for (const int replicas : {2, 3, 4, 5, 6, 8})
    for (const Accumulate accumulate : {Accumulate::whole, Accumulate::sums})
      all.push_back({.replicas = replicas, .accumulate = accumulate, .micro_batch = 1});
  return all;
}

/// A family whose models have frozen tensors, and units of parts of blocks.
constexpr std::string_view in_parts = " in parts";

Architecture architecture_of(const std::string& family);

/// Of "FAMILY in parts".
Architecture architecture_in_parts(const std::string& family) {
  Architecture architecture = architecture_of(family.substr(0, family.size() - in_parts.size()));
  const auto has = [](const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; };
  // Of a norm the weight, of linear layers all or one of several side by side, and of gpt2 tables.
  const auto frozen = [=](const std::string& name) {
    return has(name, "ln_1.weight") || has(name, "input_layernorm") || has(name, "k_proj") || has(name, "c_attn") ||
           has(name, "c_fc") || has(name, "wpe");
  };
  mark(architecture, {frozen, {{"mlp", [=](const std::string& name) { return has(name, "mlp"); }}}});
  return architecture;
}

Architecture architecture_of(const std::string& family) {
  if (family.ends_with(in_parts)) return architecture_in_parts(family);
  const std::string gpt2 =
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 29, "n_positions": 13, "n_embd": 14,
    "n_layer": 3, "n_head": 2, "initializer_range": 0.2, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})";
  const std::string llama =
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 29, "hidden_size": 12,
    "intermediate_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16,
    "initializer_range": 0.2, "tie_word_embeddings": false})";
  const std::string deep_gpt2 =
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 29, "n_positions": 13, "n_embd": 8,
    "n_layer": 9, "n_head": 2, "initializer_range": 0.2, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})";
  const std::string deep_llama =
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 29, "hidden_size": 8,
    "intermediate_size": 14, "num_hidden_layers": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16,
    "initializer_range": 0.2, "tie_word_embeddings": false})";
  const std::map<std::string, std::string> configs{
      {"gpt2", gpt2}, {"llama", llama}, {"deep gpt2", deep_gpt2}, {"deep llama", deep_llama}};
  return describe(parse_hf_config(configs.at(family), "test"));
}

/// Samples of a step: random tokens, labels that count in a ragged pattern; samples 0 to 3 have none, so that with four
/// ranks or more one has no valid token.
Batch samples(std::int64_t step, const SampleRange& range) {
  const RandomStream random(99, "samples");
  Batch batch;
  batch.samples = std::max<std::int64_t>(range.count, 1);
  batch.length = length;
  for (std::int64_t i = 0; i < batch.samples; ++i) {
    const std::int64_t index = range.count == 0 ? 0 : range.begin + i;  // sample 0 counts for nothing
    for (std::int64_t t = 0; t < length; ++t) {
      const auto at = static_cast<std::uint64_t>((step * global_batch + index) * length + t);
      batch.tokens.push_back(static_cast<std::int32_t>(random.below(2 * at, vocabulary)));
      const bool counts = index > 3 && random.uniform(2 * at + 1) < 0.6;
      batch.labels.push_back(counts ? static_cast<std::int32_t>(random.below(3 * at + 1, vocabulary)) : ignored_label);
      batch.positions.push_back(static_cast<std::int32_t>(t));
      batch.valid_tokens += counts ? 1 : 0;
    }
    batch.documents.push_back(i * length);
  }
  batch.documents.push_back(batch.samples * length);
  return batch;
}

/// A training set-up on the ranks of a communicator.
class Job {
 public:
  /// `mutate` changes what the engine runs, not what it is expected to do.
  Job(std::unique_ptr<Communicator> ranks, const Composition& how, Precision precision, std::optional<double> clip,
      const std::function<void(RankClass&)>& mutate = {})
      : session_(std::move(ranks)),
        rank_(session_.world().rank()),
        mesh_(mesh_of(how)),
        sharding_(sharding_of(how)),
        batches_(plan_batch(global_batch, how.data_ranks(), how.micro_batch)),
        types_(types_of(how, precision)),
        architecture_(architecture_of(how.family)),
        programs_(make_catalogue(mesh_, plan(how, {batches_.micro_batch, length}),
                                 program_options(how, clip.has_value()),
                                 plan(how, {1, architecture_.config.max_positions}))),
        right_(programs_.train),
        model_(architecture_, precision, types_.state, how.bucket_bytes, {mesh_, sharding_, rank_}, programs_.parts,
               how.in_backward ? GradientMemory::lent : GradientMemory::held),
        optimizer_(make_optimizer(options(how), model_.parameters())),
        transport_(make_transport(session_, programs_)),
        engine_(model_, *optimizer_, programs_, session_, transport_, clip, how.reduce) {
    model_.initialise(7);
    if (mutate) mutate(programs_.train.classes.front());
  }

  StepOutcome step(std::int64_t number) {
    return engine_.run_step({.step = number, .micro_batches = part(number), .valid_tokens = 0},
                            {.step = number, .valid_tokens = valid_tokens(number), .lr = 1e-3, .failure = nullptr});
  }
  EvaluationOutcome evaluate(std::int64_t number) { return engine_.evaluate(part(number), 0); }
  /// A text that the model goes on with; which ranks drew a token is counted.
  std::vector<std::int32_t> text(const SampleOptions& options, int& draws) {
    SampledText text({3, 1, 4}, options, {model_.config().max_positions});
    const TokenDraw draw = [&](std::span<const double> logits) {
      ++draws;
      return text.draw(logits);
    };
    while (!text.ended()) {
      const SeenText seen = text.seen();
      seen_tokens_ = seen.batch.length;
      text.append(engine_.draw_token(seen, draw, 0));
    }
    return text.tokens();
  }
  const Model& model() const { return model_; }
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
    MicroBatchTokens tokens{.planned = batches_.micro_batch * length};
    for (const Batch& batch : part(0)) tokens.tokens.push_back(batch.samples * batch.length);
    const StepProgram& program = programs_.pick(step, ProgramPhase::training);
    return trace_fault(&program == &programs_.train ? right_ : program, tokens);
  }
  /// Of the last pass over a text.
  std::optional<std::string> text_trace_fault() const {
    return trace_fault(programs_.sample, {architecture_.config.max_positions, {seen_tokens_}});
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
    if (how.node > 1) axes.emplace_back("dp_node", how.node);
    if (how.inner > 1)
      axes.insert(axes.end(), {{"dp_shard_outer", how.shards / how.inner}, {"dp_shard_inner", how.inner}});
    else if (how.shards > 1)
      axes.emplace_back("dp_shard", how.shards);
    return make_mesh("world", axes);
  }
  static UnitTypes types_of(const Composition& how, Precision precision) {
    UnitTypes types = unit_types(precision, state_of(options(how), master_dtype(precision)));
    types.reduce = how.reduce;
    return types;
  }
  static Sharding sharding_of(const Composition& how) {
    if (how.inner > 1) return {{"dp_shard_outer", "dp_shard_inner"}, how.shards, {"dp_shard_inner"}, how.inner};
    return how.shards > 1 ? Sharding{{"dp_shard"}, how.shards} : Sharding{};
  }
  static OptimizerOptions options(const Composition& how) {
    OptimizerOptions options;
    options.name = how.optimizer;
    options.eps = 1e-4;  // keeps Adam's first steps from turning rounding of tiny gradients into steps of full size
    return options;
  }
  ModelPlan plan(const Composition& how, const MicroBatchShape& shape) const {
    return plan_of(architecture_, types_, shape, how.bucket_bytes, {}, sharding_);
  }
  ProgramOptions program_options(const Composition& how, bool clips) const {
    ProgramOptions options;
    options.micro_batches = options.eval_micro_batches = static_cast<int>(batches_.accumulation);
    options.recompute = how.recompute;
    options.pipeline = {.schedule = how.schedule, .chunks = how.chunks, .passes = how.passes, .stages = {}};
    options.shards = {how.zero == 3, how.zero == 3 && how.after_backward, how.accumulate, how.prefetch};
    options.update = {.clips = clips, .heartbeat_bytes = heartbeat_bytes, .in_backward = how.in_backward};
    options.eval_reduction_bytes = heartbeat_bytes;
    options.local = how.local;
    return options;
  }
  std::vector<Batch> part(std::int64_t step) const {
    std::vector<Batch> parts;
    const std::int64_t share = rank_ % batches_.ranks;  // pp is the slowest axis
    for (std::int64_t i = 0; i < batches_.accumulation; ++i)
      parts.push_back(samples(step, samples_of(batches_, share, i)));
    return parts;
  }
  static std::int64_t valid_tokens(std::int64_t step) { return samples(step, {0, global_batch}).valid_tokens; }

  at::Tensor whole(const LogicalTensor& of, const std::function<at::Tensor(const Parameter&)>& mine) {
    std::string text;  // the first row that this rank has, and its rows
    for (const Parameter* parameter : model_.parameters()) {
      if (parameter->name() != of.name || parameter->shard_elements() == 0) continue;
      const std::span<std::byte> bytes = bytes_of(mine(*parameter));
      const std::int64_t begin = parameter->box().begin[0];
      text.assign(reinterpret_cast<const char*>(&begin), sizeof begin);
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    at::Tensor result = at::full(of.shape, std::nan(""), at::TensorOptions().dtype(master_type(model_.precision())));
    const std::int64_t row = result.numel() / of.shape[0] * result.element_size();
    for (const std::string& part : session_.world().all_gather(text)) {
      if (part.empty()) continue;
      std::int64_t begin = 0;
      std::memcpy(&begin, part.data(), sizeof begin);
      std::memcpy(static_cast<char*>(result.mutable_data_ptr()) + begin * row, part.data() + sizeof begin,
                  part.size() - sizeof begin);
    }
    return result;
  }

  Session session_;
  Rank rank_;
  Mesh mesh_;
  Sharding sharding_;
  BatchPlan batches_;
  UnitTypes types_;
  Architecture architecture_;
  Catalogue programs_;
  StepProgram right_;
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  Transport transport_;
  Engine engine_;
  std::int64_t seen_tokens_ = 0;  // of the last pass over a text
};

double norm_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.flatten().to(at::kDouble);
  return std::sqrt(at::dot(flat, flat).item<double>());
}

/// The most likely tokens; drawn ones, beyond the context of the models.
std::vector<SampleOptions> ways_to_sample() {
  SampleOptions greedy, seeded;
  greedy.max_tokens = 6;
  greedy.temperature = 0;
  seeded.max_tokens = 18;
  seeded.temperature = 1.5;
  seeded.seed = 11;
  return {greedy, seeded};
}

/// The same by the whole model of one rank, without a program.
std::vector<std::int32_t> text_of(const Model& model, const SampleOptions& options) {
  SampledText text({3, 1, 4}, options, {model.config().max_positions});
  while (!text.ended()) {
    const SeenText seen = text.seen();
    const at::Tensor logits = model.logits(to_tensors(seen.batch, model.config()))[seen.last].to(at::kDouble);
    text.append(text.draw(values_of<double>(logits)));
  }
  return text.tokens();
}

/// What one rank has: outcomes of 20 steps; of the first the gradients, an evaluation and texts after it.
struct Reference {
  std::vector<StepOutcome> steps;
  std::map<std::string, at::Tensor> gradients;
  double all_norm = 0;
  double eval_loss = 0;
  std::vector<std::vector<std::int32_t>> texts;
};

const Reference& reference_of(const std::string& family) {
  static std::map<std::string, Reference> known;
  const auto [found, fresh] = known.try_emplace(family);
  if (!fresh) return found->second;
  Reference& reference = found->second;
  Job one(solo_communicator(), {.micro_batch = global_batch, .family = family.c_str()}, Precision::fp64, 0.5);
  for (std::int64_t step = 0; step < 20; ++step) {
    reference.steps.push_back(one.step(step));
    if (step > 0) continue;
    double sum = 0;
    for (const Parameter* parameter : one.model().parameters()) {
      if (!parameter->is_trained()) continue;
      reference.gradients[parameter->name()] = parameter->gradient().clone();
      sum += std::pow(norm_of(parameter->gradient()), 2);
    }
    reference.all_norm = std::sqrt(sum);
    reference.eval_loss = one.evaluate(3).loss_sum;
    for (const SampleOptions& options : ways_to_sample()) reference.texts.push_back(text_of(one.model(), options));
  }
  return reference;
}

std::unique_ptr<Communicator> all_ranks() { return test::world().split(0, "world"); }

/// Those on as many ranks as there are: one of four, or with LOCKSTEP_TEST_ALL all of them.
std::vector<Composition> of_this_world() {
  const bool all = std::getenv("LOCKSTEP_TEST_ALL") != nullptr;
  std::vector<Composition> mine;
  int count = 0;
  for (const Composition& how : all_compositions())
    if (how.ranks() == test::world().size() && (count++ % 4 == 0 || all)) mine.push_back(how);
  return mine;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_equals_one_rank_in_fp64) {
  struct Line {
    double seconds;
    std::string text;
  };
  std::vector<Line> table;
  for (const Composition& how : of_this_world()) {
    const double start_s = monotonic_seconds();
    const Reference& want = reference_of(how.family);
    Job job(all_ranks(), how, Precision::fp64, 0.5);
    for (std::int64_t step = 0; step < how.steps; ++step) {
      const StepOutcome got = job.step(step);
      const StepOutcome& one = want.steps[static_cast<std::size_t>(step)];
      const double bound = step == 0 ? 1e-12 : 1e-9;
      BOOST_TEST(std::abs(got.loss - one.loss) <= bound * one.loss,
                 how.text() << ", step " << step << ": loss " << got.loss << " against " << one.loss);
      BOOST_TEST(std::abs(got.gradient_norm - one.gradient_norm) <= bound * one.gradient_norm,
                 how.text() << ", step " << step << ": norm " << got.gradient_norm << " against " << one.gradient_norm);
      if (step > 0) continue;
      const auto fault = job.trace_fault();
      BOOST_TEST(!fault.has_value(), how.text() << ": " << fault.value_or(""));
      for (const LogicalTensor& tensor : job.tensors()) {
        if (!tensor.trained) continue;
        const at::Tensor expected = want.gradients.at(tensor.name);
        const double error = norm_of(at::sub(job.whole_gradient(tensor), expected));
        BOOST_TEST(error <= 1e-12 * std::max(norm_of(expected), 1e-3 * want.all_norm),
                   how.text() << ": the gradient of " << tensor.name << " differs by " << error);
      }
      const double eval = job.evaluate(3).loss_sum;
      BOOST_TEST(std::abs(eval - want.eval_loss) <= 1e-12 * want.eval_loss,
                 how.text() << ": evaluation " << eval << " against " << want.eval_loss);
      for (std::size_t i = 0; i < want.texts.size(); ++i) {
        int draws = 0;
        BOOST_TEST(job.text(ways_to_sample()[i], draws) == want.texts[i], how.text() << ": text " << i);
        BOOST_TEST((draws == 0 || job.model().has_head()));
        BOOST_TEST(test::world().all_reduce(std::int64_t{draws}, Reduce::sum) == std::ssize(want.texts[i]) - 3);
        const auto astray = job.text_trace_fault();
        BOOST_TEST(!astray.has_value(), how.text() << ": " << astray.value_or(""));
      }
    }
    table.push_back({monotonic_seconds() - start_s, how.text()});
  }
  std::ranges::sort(table, std::ranges::greater{}, &Line::seconds);
  if (test::world().rank() != 0 || table.empty()) return;
  std::printf("# %zu compositions on %d ranks, the slowest first:\n", table.size(), test::world().size());
  for (const Line& line : table) std::printf("#   %5.2f s  %s\n", line.seconds, line.text.c_str());
}

BOOST_AUTO_TEST_CASE(shards_equal_plain_data_parallelism_bit_for_bit) {
  if (test::world().size() == 1) return;
  for (const auto& [family, precision] : {std::pair("gpt2", Precision::fp32), {"llama", Precision::bf16}}) {
    const auto make = [&](const Composition& how) {
      return std::make_unique<Job>(all_ranks(), how, precision, std::nullopt);
    };
    const int ranks = test::world().size();
    for (const Accumulate accumulate : {Accumulate::whole, Accumulate::sums}) {
      const auto plain = make({.replicas = ranks, .accumulate = accumulate, .micro_batch = 1, .family = family});
      std::vector<std::unique_ptr<Job>> cut;
      for (int zero = 1; zero <= 3; ++zero)
        cut.push_back(
            make({.shards = ranks, .zero = zero, .accumulate = accumulate, .micro_batch = 1, .family = family}));
      if (accumulate == Accumulate::sums)  // where all ranks share a unit out, its shards are sums
        cut.push_back(make({.shards = ranks, .accumulate = Accumulate::shards, .micro_batch = 1, .family = family}));
      for (std::int64_t step = 0; step < 3; ++step) {
        const StepOutcome want = plain->step(step);
        for (const auto& job : cut) BOOST_TEST(job->step(step).loss == want.loss);
      }
      for (const LogicalTensor& tensor : plain->tensors()) {
        const at::Tensor want = plain->whole_weight(tensor);
        for (const auto& job : cut) BOOST_TEST(at::equal(job->whole_weight(tensor), want));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_summed_in_the_type_that_is_asked_for) {
  const int ranks = test::world().size();
  if (ranks != 2 && ranks != 4) return;
  const double rounding = std::pow(2.0, -8);  // of bf16: a gradient of each rank, a sum over shards, one over replicas
  for (const Accumulate accumulate : {Accumulate::whole, Accumulate::shards, Accumulate::sums}) {
    for (const int shards : {1, 2, 4}) {
      if (ranks % shards != 0 || (shards == 1 && accumulate == Accumulate::shards)) continue;
      Composition how{.replicas = ranks / shards, .shards = shards, .accumulate = accumulate, .micro_batch = 2};
      Job master(all_ranks(), how, Precision::fp32, 0.5);
      how.reduce = DType::f64;
      Job wide(all_ranks(), how, Precision::fp32, 0.5);
      how.reduce = DType::bf16;
      Job narrow(all_ranks(), how, Precision::fp32, 0.5);
      const double norm = master.step(0).gradient_norm;
      BOOST_TEST(std::abs(wide.step(0).gradient_norm - norm) <= 1e-6 * norm, how.text());
      BOOST_TEST(std::abs(narrow.step(0).gradient_norm - norm) <= 4 * rounding * norm, how.text());
      for (const Job* job : {&wide, &narrow}) {
        const auto fault = job->trace_fault();
        BOOST_TEST(!fault.has_value(), how.text() << ": " << fault.value_or(""));
      }
      bool differ = false;
      for (const LogicalTensor& tensor : master.tensors()) {
        const at::Tensor want = master.whole_gradient(tensor), got = narrow.whole_gradient(tensor);
        // Cancellation makes no more of it: what is rounded is as large as the gradients of ranks.
        BOOST_TEST(norm_of(at::sub(got, want)) <= 8 * rounding * std::max(norm_of(want), 1e-2 * norm),
                   how.text() << ": " << tensor.name);
        BOOST_TEST(norm_of(at::sub(wide.whole_gradient(tensor), want)) <= 2e-6 * std::max(norm_of(want), 1e-3 * norm),
                   how.text() << ": " << tensor.name);
        differ = differ || !at::equal(got, want);
      }
      BOOST_TEST(differ, how.text());
    }
  }
}

BOOST_AUTO_TEST_CASE(frozen_tensors_stay_and_leave_the_gradients_of_the_others_alone) {
  if (test::world().size() != 1) return;
  for (const char* family : {"gpt2", "llama"}) {
    const std::string parts = std::string(family) + std::string(in_parts);
    Job whole(solo_communicator(), {.micro_batch = 4, .family = family}, Precision::bf16, 0.5);
    Job frozen(solo_communicator(), {.micro_batch = 4, .family = parts.c_str()}, Precision::bf16, 0.5);
    std::map<std::string, at::Tensor> before;
    std::int64_t held = 0, all = 0;
    for (const Parameter* parameter : frozen.model().parameters())
      before[parameter->name()] = parameter->master().clone();
    for (const Unit* unit : frozen.model().units()) {
      all += unit->is_trained() ? unit->length() : 0;
      held += unit->gradient().defined() ? unit->gradient().numel() : 0;
      BOOST_TEST(unit->state().size() == (unit->is_trained() ? 2u : 0u));
    }
    BOOST_TEST(held == all);
    whole.step(0);
    const StepOutcome outcome = frozen.step(0);
    double sum = 0;
    for (const Parameter* parameter : frozen.model().parameters()) {
      BOOST_TEST(at::equal(parameter->master(), before.at(parameter->name())) == !parameter->is_trained(),
                 parameter->name());
      if (!parameter->is_trained()) continue;
      const at::Tensor want = whole.model().parameter(parameter->name()).gradient();
      BOOST_TEST(at::equal(parameter->gradient(), want), parameter->name());
      sum += std::pow(norm_of(want), 2);
    }
    BOOST_TEST(std::abs(outcome.gradient_norm - std::sqrt(sum)) <= 1e-6 * outcome.gradient_norm);
  }
}

BOOST_AUTO_TEST_CASE(an_optimizer_in_backward_gives_the_bits_of_one_after_the_heartbeat) {
  const int ranks = test::world().size();
  std::vector<Composition> ways{{.replicas = ranks, .micro_batch = global_batch},
                                {.replicas = ranks, .micro_batch = 1, .family = "llama"},
                                {.replicas = ranks, .recompute = RecomputePolicy::block, .bucket_bytes = 1 << 20}};
  for (int zero = 1; zero <= 3 && ranks > 1; ++zero) {
    ways.push_back({.shards = ranks, .zero = zero, .micro_batch = global_batch});
    ways.push_back(
        {.shards = ranks, .zero = zero, .accumulate = Accumulate::shards, .micro_batch = 1, .family = "llama"});
    if (ranks % 2 == 0) ways.push_back({.replicas = 2, .shards = ranks / 2, .zero = zero, .micro_batch = 1});
  }
  ways.push_back({.replicas = ranks, .accumulate = Accumulate::sums, .micro_batch = 1});
  if (ranks == 4) ways.push_back({.replicas = 2, .shards = 2, .accumulate = Accumulate::sums, .micro_batch = 1});
  for (Composition one : pipelines()) {
    if (one.ranks() != ranks) continue;
    one.passes = 1;
    ways.push_back(one);
  }
  for (const Composition& how : ways) {
    for (const Precision precision : {Precision::fp64, Precision::bf16}) {
      Job after(all_ranks(), how, precision, std::nullopt);
      Composition own = how;
      own.in_backward = true;
      Job within(all_ranks(), own, precision, std::nullopt);
      for (std::int64_t step = 0; step < 3; ++step) {
        const StepOutcome want = after.step(step), got = within.step(step);
        BOOST_TEST(got.loss == want.loss, own.text());
        BOOST_TEST(got.gradient_norm == want.gradient_norm, own.text());
        const auto fault = within.trace_fault();
        BOOST_TEST(!fault.has_value(), own.text() << ": " << fault.value_or(""));
      }
      BOOST_TEST(within.evaluate(3).loss_sum == after.evaluate(3).loss_sum, own.text());
      BOOST_REQUIRE(within.model().units().size() == after.model().units().size());
      for (std::size_t i = 0; i < after.model().units().size(); ++i) {
        const Unit &one = *after.model().units()[i], &other = *within.model().units()[i];
        BOOST_TEST(at::equal(other.master(), one.master()), own.text());
        BOOST_TEST(!other.gradient().defined(), own.text());
        for (std::size_t kept = 0; kept < one.state().size(); ++kept)
          BOOST_TEST(at::equal(other.state()[kept], one.state()[kept]), own.text());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_failure_after_the_first_update_in_backward_is_its_ranks_alone_and_one_before_it_is_everybodys) {
  const int ranks = test::world().size();
  const Rank last = ranks - 1;
  const auto failing_in = [&](const std::string& phase) {
    Job job(all_ranks(), {.replicas = ranks, .micro_batch = global_batch, .in_backward = true}, Precision::fp32,
            std::nullopt);
    job.session().configure(
        {.watchdog_s = 0,
         .injection = parse_injection(fmt::format("kind=throw,code=5,rank={},phase={},step=0", last, phase))});
    try {
      job.step(0);
    } catch (const AgreedError& error) {
      return fmt::format("all of rank {}", error.owner());
    } catch (const Error& error) {
      return fmt::format("alone: {}", error.what());
    }
    return std::string("none");
  };
  for (const char* const phase : {"backward", "norm", "optimizer"})  // the first of each comes before the first update
    BOOST_TEST(failing_in(phase) == fmt::format("all of rank {}", last));
  if (ranks > 1) return;  // what follows leaves other ranks in the middle of a step: tests/e2e/shards_test.py
  BOOST_TEST(failing_in("heartbeat") == "alone: injected failure in heartbeat of step 0");
}

/// Ways to have cells of this world's ranks.
std::vector<Composition> in_cells(std::int64_t start_step, std::int64_t period) {
  const int ranks = test::world().size();
  std::vector<Composition> ways{{.replicas = ranks, .micro_batch = global_batch},
                                {.replicas = ranks, .accumulate = Accumulate::sums, .micro_batch = 1},
                                {.replicas = ranks, .micro_batch = 1, .family = "llama in parts"}};
  if (ranks == 4) {
    for (int zero = 1; zero <= 3; ++zero)
      ways.push_back({.replicas = 2,
                      .shards = 2,
                      .zero = zero,
                      .accumulate = zero == 3 ? Accumulate::shards : Accumulate::sums,
                      .micro_batch = 1});
    ways.push_back({.replicas = 2, .accumulate = Accumulate::sums, .micro_batch = 1, .node = 2});
    for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zbv})
      ways.push_back({.replicas = 2,
                      .family = "deep gpt2",  // tied: one unit on both stages
                      .stages = 2,
                      .schedule = schedule,
                      .chunks = schedule == PipelineSchedule::zbv ? 2 : 1});
  }
  for (Composition& way : ways) way.local = {{"dp_replicate"}, start_step, period};
  return ways;
}

BOOST_AUTO_TEST_CASE(cells_of_plain_sgd_that_are_averaged_after_each_step_are_data_parallelism) {
  if (test::world().size() == 1) return;
  for (Composition how : in_cells(0, 1)) {
    how.optimizer = OptimizerName::sgd;
    Composition plain = how;
    plain.local = {};
    for (const bool in_backward : {false, true}) {
      how.in_backward = in_backward;
      Job want(all_ranks(), plain, Precision::fp64, std::nullopt), got(all_ranks(), how, Precision::fp64, std::nullopt);
      for (std::int64_t step = 0; step < 3; ++step) {
        const double loss = want.step(step).loss;
        BOOST_TEST(std::abs(got.step(step).loss - loss) <= 1e-12 * loss, how.text());
        const auto fault = got.trace_fault(step);
        BOOST_TEST(!fault.has_value(), how.text() << ": " << fault.value_or(""));
      }
      for (const LogicalTensor& tensor : want.tensors()) {
        const at::Tensor expected = want.whole_weight(tensor);
        const double error = norm_of(at::sub(got.whole_weight(tensor), expected));
        BOOST_TEST(error <= 1e-12 * norm_of(expected), how.text() << ": " << tensor.name << " differs by " << error);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(cells_part_from_each_other_until_they_are_averaged) {
  if (test::world().size() == 1) return;
  for (const Composition& how : in_cells(1, 3)) {
    for (const Precision precision : {Precision::fp64, Precision::bf16}) {
      Job job(all_ranks(), how, precision, 0.1);
      for (std::int64_t step = 0; step < 6; ++step) {
        BOOST_TEST(std::isfinite(job.step(step).gradient_norm));
        const auto fault = job.trace_fault(step);
        BOOST_TEST(!fault.has_value(), how.text() << ", step " << step << ": " << fault.value_or(""));
        std::map<std::string, std::set<std::string>> seen;  // by what ranks differ in besides their cell: weights
        std::string mine = job.place_in_cell() + ":";
        for (const auto& unit : job.model().units()) {
          BOOST_TEST((precision != Precision::bf16 || at::equal(unit->compute(), unit->master().to(at::kBFloat16))));
          mine += to_hex(hash128(std::as_bytes(bytes_of(unit->master())))) + " ";
        }
        for (const std::string& told : test::world().all_gather(mine))
          seen[told.substr(0, told.find(':'))].insert(told);
        for (const auto& [place, weights] : seen)
          BOOST_TEST((weights.size() > 1) == (step == 2 || step == 3 || step == 5), how.text() << ", step " << step);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_engine_that_does_something_else_leaves_another_trace) {
  if (test::world().size() != 4) return;
  const Composition how{.replicas = 2, .shards = 2, .micro_batch = 4};
  const auto told = [&](const std::function<void(RankClass&)>& mutate) {
    Job job(all_ranks(), how, Precision::fp32, 0.5, mutate);
    job.step(0);
    return job.trace_fault().value_or("");
  };
  const auto first = [](RankClass& ranks, Op op) -> Action& {
    return *std::ranges::find(ranks.actions, op, &Action::op);
  };
  BOOST_TEST(told({}) == "");
  BOOST_TEST(told([&](RankClass& ranks) {
               first(ranks, Op::all_reduce).group = {"dp_shard"};
             }).find("recorded issued all_reduce on lane replica among ranks") != std::string::npos);
  BOOST_TEST(told([&](RankClass& ranks) {
               first(ranks, Op::all_reduce).lane = Lane::reduction;
             }).find("recorded issued all_reduce on lane reduction") != std::string::npos);
  BOOST_TEST(told([&](RankClass& ranks) {
               first(ranks, Op::gradient_norm).waits.clear();
             }).find("expected waited for all_reduce") != std::string::npos);
  BOOST_TEST(told([&](RankClass& ranks) {  // memory that the next action lets go is let go by the last that reads it
               Action& reshard = first(ranks, Op::reshard);
               Action& reader = *(&reshard - 1);
               reader.slots.releases = std::exchange(reshard.slots.releases, {});
             })
                 .find("recorded released gathered") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_rank_keeps_its_shard_and_no_more) {
  const int ranks = test::world().size();
  if (ranks == 1) return;
  Job job(all_ranks(), {.shards = ranks}, Precision::fp32, 0.5);
  std::int64_t held = 0, all = 0;
  for (const auto& unit : job.model().units()) {
    held += unit->master().numel() + unit->gradient().numel();
    all += 2 * unit->whole_length();
  }
  BOOST_TEST(held <= all / ranks + 2 * 16 * std::ssize(job.model().parameters()) * 14);  // rows and alignment
  for (const Parameter* parameter : job.model().parameters()) BOOST_TEST(!parameter->compute().defined());
}

BOOST_AUTO_TEST_SUITE_END()
