#include "train/train_plan.hpp"

#include "architecture/context_parallel.hpp"
#include "architecture/rope_frequencies.hpp"
#include "architecture/tensor_parallel.hpp"
#include "architecture/units.hpp"
#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/rounding.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "checkpoint/read_plan.hpp"
#include "comm/heartbeat.hpp"
#include "exchange/model_folder.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "options/suggestion.hpp"
#include "prepare/first_token.hpp"
#include "program/memory_estimate.hpp"
#include "tensor/number_types.hpp"
#include "train/run_batch.hpp"
#include "train/run_mesh.hpp"
#include "train/run_preparation.hpp"
#include "train/run_recompute.hpp"
#include "train/run_tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t evaluation_chunk =
    16;  // micro-batches in one evaluation program, at most: keeps the list short on long splits

ModelConfig read_model_config(const ModelOptions& options, Head head) {
  ModelConfig config = with_head(read_hf_config(Path(options.path ? *options.path : *options.config)), head);
  DropoutRates& rates = config.dropout;
  if (const auto& all = options.dropout) rates = {.embedding = *all, .attention = *all, .residual = *all};
  rates.embedding = options.embedding_dropout.value_or(rates.embedding);
  rates.attention = options.attention_dropout.value_or(rates.attention);
  rates.residual = options.residual_dropout.value_or(rates.residual);
  return config;
}

/// Which tensors are frozen, how others are updated, and which form units of their own.
void mark_tensors(const TrainConfig& config, Architecture& architecture) {
  TensorRules rules;
  rules.freezes = [&frozen = config.optimizer.frozen](const std::string& name) {
    return std::ranges::any_of(frozen, [&](const NamePattern& pattern) { return pattern.matches(name); });
  };
  rules.updated_by = [&optimizer = config.optimizer](const LogicalTensor& tensor) {
    return update_rule_index(optimizer, tensor);
  };
  rules.update_needs = [&optimizer = config.optimizer](const LogicalTensor& tensor) {
    return needs_of(optimizer, tensor);
  };
  const std::vector<LogicalTensor> tensors = stored_tensors(architecture);
  for (const NamePattern& pattern : config.parallel.units) {
    const auto takes = [pattern](const std::string& name) { return pattern.matches(name); };
    if (std::ranges::none_of(tensors, takes, &LogicalTensor::name)) {
      std::vector<std::string> names;
      for (const LogicalTensor& tensor : tensors) names.push_back(tensor.name);
      const auto near = suggested_pattern(pattern.text(), names);
      throw Error(ExitCode::usage,
                  fmt::format("parallel.units: pattern '{}' matches none of the model's {} tensors", pattern.text(),
                              tensors.size()),
                  fmt::format("{}patterns are searched for in Hugging Face names; the first is '{}'",
                              near ? fmt::format("did you mean '{}'? ", *near) : "", tensors[0].name));
    }
    rules.units.emplace_back(pattern.text(), takes);
  }
  mark(architecture, rules);
  if (trained_count(architecture) == 0)
    throw Error(ExitCode::usage,
                fmt::format("optimizer.frozen leaves nothing to train: it matches all {} tensors", tensors.size()));
}

/// Learned positions end; rotary ones go on (warnings_on).
void check_length(const TrainConfig& config, const ModelConfig& model) {
  const std::int64_t longest = longest_length(model);
  if (model.positions == Positions::learned && config.data.sequence_length > longest) {
    fail(ExitCode::usage, "data.sequence_length is {}, but the model has {} positions", config.data.sequence_length,
         longest);
  }
}

/// Tokens of the longest prompt. Without a dataset, whose tokenizer encodes them, a prompt has a token for each byte.
std::int64_t longest_prompt(const SampleOptions& options, const Dataset* dataset, std::int64_t positions) {
  if (options.longest_prompt) return *options.longest_prompt;
  const std::unique_ptr<Tokenizer> tokenizer = dataset ? dataset->tokenizer() : nullptr;
  std::optional<PromptEncoder> encoder;
  if (tokenizer) encoder.emplace(*tokenizer, options.add_bos);
  std::int64_t longest = 1;
  for (const std::string& text : options.prompts) {
    std::int64_t tokens = std::ssize(text);
    if (encoder) {
      try {
        tokens = std::ssize(encoder->encode(text));
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("sample.prompts: {}", error.what()), error.hint());
      }
      if (tokens == 0) throw Error(ExitCode::usage, "sample.prompts has an empty text", "leave it out");
      if (tokens > positions)
        throw Error(ExitCode::usage,
                    fmt::format("sample.prompts has a text of {}, but the model has {}", counted(tokens, "token"),
                                counted(positions, "position")),
                    "shorten it");
    }
    longest = std::max(longest, tokens);
  }
  return longest;
}

/// The texts that the run continues at once. `dataset`: null if there is none with a tokenizer.
TextShape texts_of(const TrainConfig& config, const ModelConfig& model, const Dataset* dataset) {
  constexpr std::int64_t prompt_rows = 512;  // of all texts in a pass
  const SampleOptions& options = config.sample;
  const std::int64_t most = std::max(longest_length(model), config.data.sequence_length);
  const std::int64_t prompt = std::min(longest_prompt(options, dataset, most), most);
  TextShape texts{.positions = prompt + std::min(options.max_tokens, most - prompt)};
  const bool by_length = model.positions == Positions::rotary &&
                         representative_length(model.rope, 1) != representative_length(model.rope, texts.positions);
  const std::int64_t wanted = std::ssize(options.prompts) * options.count;
  texts.texts = by_length ? 1 : std::clamp<std::int64_t>(wanted, 1, options.batch);
  texts.piece = std::min(prompt, ceil_div(prompt_rows, texts.texts));
  return texts;
}

std::vector<std::string> block_names(const ModelPlan& model) {
  std::vector<std::string> names;
  for (const BlockPlan& block : model.blocks) names.push_back(block.name);
  return names;
}

int pipeline_ranks(const Mesh& mesh) {
  const Axis* axis = find_axis(mesh, pipeline_axis);
  return axis == nullptr ? 1 : axis->size;
}

/// Text that is equal where losses of evaluations may be compared: what is evaluated, in how many samples.
std::string evaluation_identity(const TrainConfig& config, const RunDataset& set, const EvaluationDataLoader& loader) {
  const std::string of = fmt::format("{} of {} samples of {} tokens", loader.samples(), set.samples->samples(),
                                     config.data.sequence_length);
  if (!set.dataset) return of + " that are made";
  StreamHash content;
  content.add(to_hex(set.dataset->manifest.tokenizer_hash));
  add_content(content, set.dataset->manifest.of(set.split));
  const auto packing = packing_of(config, SampleUse::evaluation);
  const std::string part = set.choice.shard ? fmt::format(", part {}", set.choice.shard->text()) : "";
  const std::string how = packing                         ? fmt::format(", {}", to_text(*packing))
                          : config.data.isolate_documents ? ", documents isolated"
                                                          : "";
  return fmt::format("{} of the split {} ({}){}{}", of, name_of(set.split), to_hex(content.digest()), part, how);
}

/// Of a sample that attention keeps apart: the most that is planned for.
std::int64_t most_segments(const TrainConfig& config, const TrainPlan& plan) {
  if (!config.data.isolate_documents && !packs(config)) return 1;
  const std::int64_t length = config.data.sequence_length;
  const std::int64_t planned = std::min(config.data.max_documents_per_row.value_or(length), length);
  if (sequence_ranks(plan.mesh).ring == 1 || (plan.training.empty() && plan.evaluations.empty())) return planned;
  std::int64_t most = 1;
  std::string of;
  const auto look_at = [&](const RunDataset& dataset) {
    if (const std::int64_t segments = dataset.samples->most_segments(); segments > most) {
      most = segments;
      of = dataset.choice.path;
    }
  };
  for (const RunDataset& dataset : plan.training) look_at(dataset);
  for (const EvaluationPlan& evaluation : plan.evaluations) look_at(evaluation.set);
  if (most > planned)
    throw Error(ExitCode::input,
                fmt::format("cannot plan for {} per sample (data.max_documents_per_row): {} has samples of {}",
                            counted(planned, "document"), of, counted(most, "document")),
                fmt::format("set data.max_documents_per_row to {}, or leave it out", most));
  return most;
}

/// Which of the sets decides what the best evaluation is.
std::size_t deciding_of(const TrainConfig& config, const std::vector<EvaluationPlan>& evaluations) {
  const auto& wanted = config.checkpoint.best_dataset;
  if (!wanted || config.eval_only) return 0;
  std::vector<std::string> names;
  for (const EvaluationPlan& evaluation : evaluations) names.push_back(evaluation.metrics);
  const auto found = std::ranges::find(names, *wanted);
  if (found == names.end())
    throw Error(
        ExitCode::usage,
        fmt::format("checkpoint.best_dataset is {}, but {}", *wanted,
                    names.empty() ? "the run evaluates nothing" : "the evaluated sets are " + join(names, ", ")),
        "name one of eval.datasets, or leave it out: the default is the first");
  return static_cast<std::size_t>(found - names.begin());
}

/// Of the samples of an epoch that are used. `kept`: what the run resolved before.
std::int64_t epoch_multiple_of(const TrainConfig& config, const BatchPlan& batch,
                               const std::optional<ResolvedRun>& kept) {
  if (!config.data.drop_last) return 1;
  if (!config.data.short_last_step) return batch.global_batch;
  return kept && kept->epoch_multiple ? *kept->epoch_multiple : batch.micro_batch * batch.ranks;
}

/// Opens the datasets; the batch is planned.
void plan_data(const TrainConfig& config, TrainPlan& plan) {
  const std::int64_t vocabulary = plan.architecture.config.vocabulary;
  if (plan.trains) plan.training = open_datasets(config, SampleUse::training);
  for (RunDataset& set : open_datasets(config, SampleUse::evaluation))
    plan.evaluations.push_back({.set = set, .metrics = metrics_name(config, set), .identity = {}});
  std::vector<const RunDataset*> all;
  for (const RunDataset& dataset : plan.training) all.push_back(&dataset);
  for (const EvaluationPlan& evaluation : plan.evaluations) all.push_back(&evaluation.set);
  check_tokenizers(all, vocabulary);
  plan.tokenizer_warning = compare_with_model(config, all);
  plan.deciding = deciding_of(config, plan.evaluations);
  for (EvaluationPlan& evaluation : plan.evaluations)
    make_samples(config, SampleUse::evaluation, vocabulary, evaluation.set);
  if (!plan.trains) return;
  plan.proportions = proportions_of(plan.training);
  for (RunDataset& dataset : plan.training) make_samples(config, SampleUse::training, vocabulary, dataset);
  plan.training_samples = joined_samples(plan.training);
  plan.samples_per_epoch =
      TrainingDataLoader(*plan.training_samples, plan.loader(config, SampleUse::training, 0)).samples_per_epoch();
}

/// Micro-batches of an evaluation program, at most evaluation_chunk, for sets of so many: of one set, as few executions
/// as can be, which are as long; of several, what costs least, an execution for itself as much as a micro-batch.
std::int64_t evaluation_program(const std::vector<std::int64_t>& micro_batches) {
  const auto rounds = [](std::int64_t total, std::int64_t chunk) { return ceil_div(total, chunk); };
  if (micro_batches.size() == 1)
    return ceil_div(micro_batches.front(), rounds(micro_batches.front(), evaluation_chunk));
  std::int64_t best = 1, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t chunk = 1; chunk <= evaluation_chunk; ++chunk) {
    std::int64_t cost = 0;
    for (const std::int64_t total : micro_batches) cost += rounds(total, chunk) * (chunk + 1);
    if (cost <= least) {
      least = cost;
      best = chunk;
    }
  }
  return best;
}

/// Micro-batches of an evaluation program; sets how often it is executed for each set.
std::int64_t plan_evaluation(const TrainConfig& config, TrainPlan& plan) {
  if (plan.evaluations.empty()) return 0;
  std::vector<std::int64_t> micro_batches;
  for (EvaluationPlan& evaluation : plan.evaluations) {
    const EvaluationDataLoader loader(*evaluation.set.samples, plan.loader(config, SampleUse::evaluation, 0),
                                      evaluation.set.batches);
    evaluation.identity = evaluation_identity(config, evaluation.set, loader);
    evaluation.samples = loader.samples();
    micro_batches.push_back(loader.micro_batches());
  }
  const std::int64_t chunk = evaluation_program(micro_batches);
  for (std::size_t i = 0; i < micro_batches.size(); ++i) plan.evaluations[i].rounds = ceil_div(micro_batches[i], chunk);
  return chunk;
}

}  // namespace

std::string TrainPlan::deciding_metrics(const TrainConfig& config) const {
  if (!trains && config.checkpoint.best_dataset) return *config.checkpoint.best_dataset;
  if (!evaluations.empty()) return evaluations[deciding].metrics;
  return config.checkpoint.best_dataset.value_or("validation");
}

std::shared_ptr<const Json> TrainPlan::uses_by_name(const TrainConfig& config, const TrainState& state) const {
  if (config.data.datasets.empty() || !state.uses) return nullptr;
  Json uses = Json::object();
  for (std::size_t i = 0; i < training.size(); ++i) {
    const DatasetUse& use = state.uses->at(i);
    uses[training[i].name] = {{"samples", use.samples}, {"tokens", use.tokens}};
  }
  return std::make_shared<const Json>(std::move(uses));
}

const Dataset* TrainPlan::dataset_with_tokenizer() const {
  for (const RunDataset& dataset : training)
    if (dataset.dataset) return &*dataset.dataset;
  for (const EvaluationPlan& evaluation : evaluations)
    if (evaluation.set.dataset) return &*evaluation.set.dataset;
  return nullptr;
}

std::int64_t TrainPlan::snapshot_bytes(Rank rank) const {
  if (!snapshot_limit) return 0;
  return std::min(*snapshot_limit, bytes_of_snapshot(programs.train.class_of(rank), !programs.averaging.classes.empty(),
                                                     saves_weights_alone));
}

std::int64_t TrainPlan::weight_bytes() const { return parameter_count(architecture) * size_of(types.kept()); }

std::int64_t TrainPlan::state_bytes() const {
  std::int64_t bytes = 0;
  for (const LogicalTensor& tensor : stored_tensors(architecture))
    for (const StateDescription& state : types.state(tensor.update))
      if (tensor.trained) bytes += elements(state_shape(state, tensor)) * size_of(state.dtype);
  return bytes;
}

std::int64_t TrainPlan::load_bytes(Rank rank) const {
  std::int64_t most = 0, element_bytes = size_of(types.master);
  for (const LogicalTensor& tensor : stored_tensors(architecture)) most = std::max(most, elements(tensor.shape));
  for (const std::vector<StateDescription>& kept : types.states)
    for (const StateDescription& state : kept)
      element_bytes = std::max<std::int64_t>(element_bytes, size_of(state.dtype));
  const StepProgram& runs = trains ? programs.train : texts ? programs.token : programs.eval;
  return bytes_held(runs.class_of(rank)) + bytes_in_work(ranks, most * element_bytes);
}

ResolvedRun TrainPlan::resolved(const TrainConfig& config) const {
  ResolvedRun run{batch.global_batch, configured_samples_per_rank(config), length, config.train.seed};
  if (packs(config)) run.pad_to_multiple_of = config.data.pad_to_multiple_of.value();
  if (config.data.drop_last && config.data.short_last_step) run.epoch_multiple = epoch_multiple;
  return run;
}

std::int64_t TrainPlan::samples_of_run(const TrainConfig& config) const {
  if (!config.data.short_last_step || samples_per_epoch == 0) return length.steps * batch.global_batch;
  const std::int64_t steps = steps_per_epoch(batch.global_batch, samples_per_epoch);
  return length.steps / steps * samples_per_epoch + length.steps % steps * batch.global_batch;
}

const ModelPlan& TrainPlan::model_of(const StepProgram& program) const {
  if (&program == &programs.prompt) return text_models.value().prompt;
  if (&program == &programs.token) return text_models.value().token;
  return &program == &programs.eval && evaluated_model ? *evaluated_model : model;
}

DataLoaderSettings TrainPlan::loader(const TrainConfig& config, SampleUse use, Rank rank) const {
  return {.global_batch = batch.global_batch,
          .micro_batch =
              use == SampleUse::evaluation ? config.eval.micro_batch.value_or(batch.micro_batch) : batch.micro_batch,
          .rank = data_place(mesh, rank).index,
          .world = batch.ranks,
          .seed = static_cast<std::uint64_t>(config.data.seed.value_or(config.train.seed)),
          .shuffle = !config.data.shuffle       ? Shuffle::never
                     : config.data.repeat_order ? Shuffle::once
                                                : Shuffle::every_epoch,
          .tail = config.data.short_last_step ? EpochTail::short_step : EpochTail::joined,
          .pad_to_multiple = row_multiple(config, use),
          .proportions = use == SampleUse::training ? proportions : std::nullopt,
          .shuffled = shuffled_of(config),
          .epoch_multiple = epoch_multiple};
}

OffloadOptions offload_options(const TrainOptions& train) {
  const auto asked = [&](Offload what) { return std::ranges::find(train.offload, what) != train.offload.end(); };
  OffloadOptions options{.optimizer = asked(Offload::optimizer),
                         .shards = asked(Offload::shards),
                         .activations = asked(Offload::activations)};
  if (train.host_memory)
    options.host_limit_bytes =
        checked_cast<std::int64_t>(train.host_memory->bytes, "train.host_memory", ExitCode::usage);
  return options;
}

namespace {

/// What steps follow from is not there for a plan without data.
RunLength plan_length(const TrainConfig& config, const TrainPlan& plan) {
  if (plan.training.empty() && !config.train.max_steps) return {};
  const RunLength length = length_of(config, steps_of(config, plan.batch.global_batch, plan.samples_per_epoch));
  if (const std::string contradiction = contradiction_of(config.schedule, length); !contradiction.empty())
    throw Error(ExitCode::usage, contradiction,
                fmt::format("the run has {}: shorten the warm-up, or lengthen the run", counted(length.steps, "step")));
  require_rates(schedule_of(config, length));
  return length;
}

/// An option that would move nothing is refused.
void check_activations_move(const StepProgram& program, const ModelPlan& model, const OffloadOptions& options) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();  // of those that may go
  for (const RankClass& ranks : program.classes) {
    if (std::ranges::find(ranks.actions, Op::offload_stash, &Action::op) != ranks.actions.end()) return;
    for (const StashLife& life : stash_lives(ranks.actions, model))
      if (life.worth_moving()) least = std::min(least, life.bytes);
  }
  const auto human = [](std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  if (least < std::numeric_limits<std::int64_t>::max())
    throw Error(ExitCode::usage,
                fmt::format("train.offload activations has no effect: train.host_memory {} is too small for the "
                            "activations of any block (at least {}) in addition to the permanent state there",
                            human(options.host_limit_bytes), human(least)),
                "raise train.host_memory");
  throw Error(ExitCode::usage,
              "train.offload activations has no effect: backward needs the activations of each block before they could "
              "be copied to host memory and back",
              "more blocks per rank or more micro-batches of a pipeline keep activations longer; those that "
              "train.recompute recomputes are not kept");
}

}  // namespace

TrainPlan make_train_plan(const TrainConfig& config, int ranks, const Processor& processor,
                          const std::optional<ResolvedRun>& kept, const WeightsReport& weights, WithoutDataset without,
                          const PlannedFor& device) {
  TrainPlan plan;
  plan.ranks = ranks;
  plan.trains = !reads_weights_alone(config);
  for (const std::int64_t rank : config.log.profile_ranks)
    if (rank >= ranks)
      throw Error(ExitCode::usage,
                  fmt::format("log.profile_ranks names rank {}, but the job has {}", rank, counted(ranks, "rank")));
  plan.architecture = describe(read_model_config(config.model, weights.head));
  pad_vocabulary(plan.architecture, device.vocabulary_multiple);
  plan.weights = weights.remarks;
  plan.mesh = mesh_of(config.parallel, config.post_local_sgd, plan.architecture.config, ranks);
  mark_tensors(config, plan.architecture);
  check_length(config, plan.architecture.config);
  const int data_ranks = data_place(plan.mesh, 0).count;
  const auto [batch, passes] = plan.trains ? plan_run_batch(config, data_ranks, kept)
                                           : std::pair(plan_evaluation_batch(config, data_ranks, kept), PassPlan());
  plan.batch = batch;
  plan.epoch_multiple = epoch_multiple_of(config, batch, kept);
  if (without == WithoutDataset::refused || missing_data(config).empty()) plan_data(config, plan);
  const Dataset* const with_tokenizer = plan.dataset_with_tokenizer();
  if (with_tokenizer != nullptr || !unprepared_text(config).empty())
    plan.tokenizer = tokenizer_text(config, with_tokenizer);
  plan.length = plan_length(config, plan);
  plan.segments = most_segments(config, plan);
  plan.flops_per_token = flops_per_token(plan.architecture, config.data.sequence_length);
  const Precision precision = config.precision.dtype;
  plan.types = unit_types(precision, states_of(config.optimizer, master_dtype(precision)));
  if (config.precision.weights == WeightsKept::bf16) plan.types.only = plan.types.compute;
  if (const auto& reduce = config.precision.reduce_dtype) plan.types.reduce = compute_dtype(*reduce);
  if (const auto& output = config.precision.output_dtype) plan.types.output = compute_dtype(*output);
  const Sharding sharding = sharding_of(plan.mesh, config.parallel);
  const SequenceRanks sequence = sequence_ranks(plan.mesh);
  cut_over(plan.architecture, sharding.blocks);
  check_heads(plan.architecture.config, sharding.blocks.ranks, sequence);
  const auto model_on = [&](std::int64_t samples) {
    return plan_of(
        plan.architecture, plan.types,
        {.samples = samples, .length = config.data.sequence_length, .sequence = sequence, .segments = plan.segments},
        plan.buckets, processor, sharding);
  };
  plan.model = model_on(plan.batch.micro_batch);
  ProgramOptions options{
      .micro_batches =
          checked_cast<int>(plan.batch.accumulation, "the number of micro-batches of a step", ExitCode::usage),
      .eval_micro_batches = checked_cast<int>(plan_evaluation(config, plan),
                                              "the number of micro-batches of an evaluation", ExitCode::usage),
      .pipeline = pipeline_options(config.parallel, block_names(plan.model), pipeline_ranks(plan.mesh), passes.passes),
      .shards = shard_options(config.parallel, sharding),
      .update = {.clips = config.optimizer.clip_norm.has_value(),
                 .heartbeat_bytes = heartbeat_bytes_of(plan.architecture.config, std::ssize(training_datasets(config))),
                 .in_backward = config.optimizer.in_backward},
      .offload = offload_options(config.train),
      .eval_reduction_bytes = heartbeat_bytes,
      .local = local_options(config.post_local_sgd, plan.mesh),
      .one_queue = device.one_queue,
  };
  if (config.parallel.bucket_size) {  // buckets end where stages do, which blocks alone decide
    plan.buckets = {
        checked_cast<std::int64_t>(config.parallel.bucket_size->bytes, "parallel.bucket_size", ExitCode::usage),
        begins_of(pipeline_of(plan.mesh, plan.model, options, ProgramPhase::training).stages)};
    plan.model = model_on(plan.batch.micro_batch);
  }
  plan.model.shared_bytes +=
      update_bytes(config.optimizer, stored_tensors(plan.architecture), plan.model.units, master_dtype(precision));
  if (const auto& samples = config.eval.micro_batch; samples && *samples != plan.batch.micro_batch)
    plan.evaluated_model = model_on(*samples);
  if (samples_text(config)) {
    plan.texts = texts_of(config, plan.architecture.config, with_tokenizer);
    options.draw_bytes = draw_bytes_of(plan.texts->texts);
    const auto pass = [&](const MicroBatchShape& shape) {
      return plan_of(plan.architecture, plan.types, shape, plan.buckets, processor, sharding);
    };
    plan.text_models = {.prompt = pass(prompt_pass(*plan.texts)), .token = pass(token_pass(*plan.texts))};
  }
  options.recompute = recompute_policy(config.train, plan.architecture.config, plan.mesh, plan.model, options);
  plan.programs = make_catalogue(plan.mesh, plan.model, options, plan.text_models, plan.evaluated_model);
  if (options.offload.activations) check_activations_move(plan.programs.train, plan.model, options.offload);
  plan.saves_weights_alone = !is_saved(config.checkpoint, "optimizer");
  if (config.checkpoint.background != Background::never) {
    const auto& memory = config.checkpoint.snapshot_memory;
    plan.snapshot_limit = memory
                              ? checked_cast<std::int64_t>(memory->bytes, "checkpoint.snapshot_memory", ExitCode::usage)
                              : std::numeric_limits<std::int64_t>::max();
  }
  return plan;
}

}  // namespace lockstep
