#include "train/train_plan.hpp"

#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/words.hpp"
#include "comm/heartbeat.hpp"
#include "exchange/model_folder.hpp"
#include "optim/optimizer.hpp"
#include "tensor/number_types.hpp"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::int64_t evaluation_chunk =
    16;  // micro-batches in one evaluation program, at most: keeps the list short on long splits

HfConfig read_model_config(const ModelOptions& options) {
  HfConfig config = read_hf_config(Path(options.path ? *options.path : *options.config));
  if (options.dropout) config.dropout = *options.dropout;
  return config;
}

DataSplit split_named(const std::string& name, std::string_view option) {
  for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
    if (name_of(split) == name) return split;
  }
  throw Error(ExitCode::usage,
              fmt::format("{} is '{}', but a dataset has the splits train and validation", option, name));
}

/// What the model must be able to take from the data.
void check_fit(const TrainConfig& config, const HfConfig& model, const DatasetManifest& data) {
  if (data.vocabulary > model.vocabulary) {
    fail(ExitCode::usage, "the dataset {} has {} token ids ({}), but the model's vocab_size is {}", config.data.path,
         data.vocabulary, data.tokenizer, model.vocabulary);
  }
  if (model.max_positions > 0 && config.data.sequence_length > model.max_positions) {
    fail(ExitCode::usage, "data.sequence_length is {}, but the model has {} positions", config.data.sequence_length,
         model.max_positions);
  }
}

bool evaluates(const TrainConfig& config) { return config.eval.every || config.eval.at_end || config.eval_only; }

/// Text that is equal where losses of evaluations may be compared: what is evaluated, in how many samples.
std::string identity_of(const TrainConfig& config, const TrainPlan& plan, const EvaluationDataLoader& loader) {
  StreamHash content;
  content.add(to_hex(plan.dataset.manifest.tokenizer_hash));
  const DataSplit split = split_named(config.data.validation_split, "data.validation_split");
  for (const ShardEntry& shard : plan.dataset.manifest.of(split).shards) content.add(to_hex(shard.hash));
  return fmt::format("{} of {} samples of {} tokens of the split {} ({}){}", loader.samples(), loader.windows(),
                     config.data.sequence_length, name_of(split), to_hex(content.digest()),
                     config.data.isolate_documents ? ", documents isolated" : "");
}

/// Micro-batches of an evaluation program; sets how often it is executed.
std::int64_t plan_evaluation(const TrainConfig& config, TrainPlan& plan) {
  if (!plan.validation) return 0;
  const EvaluationDataLoader loader(*plan.validation, plan.loader(config, 0), config.eval.batches);
  const std::int64_t total = loader.micro_batches();
  plan.evaluation = identity_of(config, plan, loader);
  plan.evaluation_rounds = (total + evaluation_chunk - 1) / evaluation_chunk;
  return (total + plan.evaluation_rounds - 1) / plan.evaluation_rounds;
}

}  // namespace

DataLoaderSettings TrainPlan::loader(const TrainConfig& config, Rank rank) const {
  return {.length = config.data.sequence_length,
          .global_batch = config.train.global_batch,
          .micro_batch = batch.micro_batch,
          .rank = rank,
          .world = ranks,
          .seed = static_cast<std::uint64_t>(config.train.seed),
          .shuffle = config.data.shuffle ? Shuffle::every_epoch : Shuffle::never,
          .documents = config.data.isolate_documents ? Documents::isolated : Documents::joined};
}

TrainPlan make_train_plan(const TrainConfig& config, int ranks, const Processor& processor) {
  TrainPlan plan;
  plan.ranks = ranks;
  if (config.parallel.dp_replicate && *config.parallel.dp_replicate != ranks) {
    throw Error(
        ExitCode::usage,
        fmt::format("cannot lay out {} as dp_replicate={}: the only axis of this version takes all ranks",
                    counted(ranks, "rank"), *config.parallel.dp_replicate),
        fmt::format("leave parallel.dp_replicate out, or start {}", counted(*config.parallel.dp_replicate, "rank")));
  }
  plan.mesh = make_mesh("world", {{"dp_replicate", ranks}});
  plan.architecture = describe(read_model_config(config.model));
  plan.dataset = open_dataset(config.data.path);
  check_fit(config, plan.architecture.config, plan.dataset.manifest);
  plan.training =
      std::make_shared<const TokenStream>(plan.dataset.open(split_named(config.data.train_split, "data.train_split")));
  const DataSplit validation = split_named(config.data.validation_split, "data.validation_split");
  if (evaluates(config) && plan.dataset.manifest.of(validation).tokens > 1) {
    plan.validation = std::make_shared<const TokenStream>(plan.dataset.open(validation));
  } else if (config.eval.every || config.eval_only) {
    const std::string_view option = config.eval_only ? "--eval-only" : "eval.every";
    throw Error(ExitCode::usage, fmt::format("{} is set, but {} has no validation split", option, config.data.path),
                fmt::format("prepare the data with data.validation, or leave {} out", option));
  }
  plan.batch = plan_batch(config.train.global_batch, ranks, config.train.micro_batch);
  plan.samples_per_epoch = TrainingDataLoader(*plan.training, plan.loader(config, 0)).samples_per_epoch();
  plan.flops_per_token = flops_per_token(plan.architecture, config.data.sequence_length);
  const Precision precision = config.precision.dtype;
  plan.types = unit_types(precision, state_of(config.optimizer, master_dtype(precision)));
  if (config.parallel.bucket_size)
    plan.bucket_bytes =
        checked_cast<std::int64_t>(config.parallel.bucket_size->bytes, "parallel.bucket_size", ExitCode::usage);
  plan.model = plan_of(plan.architecture, plan.types, {plan.batch.micro_batch, config.data.sequence_length},
                       plan.bucket_bytes, processor);
  const ProgramOptions options{
      .micro_batches =
          checked_cast<int>(plan.batch.accumulation, "the number of micro-batches of a step", ExitCode::usage),
      .eval_micro_batches = checked_cast<int>(plan_evaluation(config, plan),
                                              "the number of micro-batches of an evaluation", ExitCode::usage),
      .recompute = {checked_cast<int>(config.train.recompute.every, "train.recompute", ExitCode::usage)},
      .update = {.clips = config.optimizer.clip_norm.has_value(), .heartbeat_bytes = heartbeat_bytes},
      .eval_reduction_bytes = heartbeat_bytes,
  };
  plan.programs = make_catalogue(plan.mesh, plan.model, options);
  return plan;
}

}  // namespace lockstep
