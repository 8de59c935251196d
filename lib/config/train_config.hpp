// The options of train: a struct for each canonical section, with the keys of the files. describe() declares them; the
// parser, help, manual, completion and schema come from that declaration (options/option.hpp). How a command line
// becomes a TrainConfig: config/command_line.hpp.
#pragma once

#include "base/precision.hpp"
#include "config/optimizer_options.hpp"
#include "config/packing_options.hpp"
#include "config/prepare_config.hpp"
#include "config/sample_options.hpp"
#include "config/values.hpp"
#include "options/defaulted.hpp"
#include "options/plugin_options.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

enum class ScheduleName { linear, cosine, constant, polynomial, inverse_sqrt, wsd, infinite };  // plug-ins add names
enum class CooldownShape { linear, cosine, sqrt };
enum class WarmupFrom { one, zero };  // first step of warm-up
enum class DeviceChoice { automatic, cpu, cuda };
enum class RankTransport { automatic, nccl, host };
enum class MatmulPrecision { fp32, tf32 };
enum class CallbackName { sample };  // plug-ins add names
enum class Offload { optimizer, shards, activations };
enum class RecomputeKeep { attention, projections, mlp, matmul, experts };
enum class OnNonfinite { skip, stop };
enum class LossName { cross_entropy };  // plug-ins add names
enum class ShuffleWhere { mixture, datasets, both };
enum class DummyTokens { random, constant };
enum class PrepareData { automatic, skip };
enum class VerifyData { use, start, off };
enum class OnBusy { skip, wait };
enum class CheckpointStorage { shared, per_node };
enum class Background { automatic, always, never };
enum class BestMetric { loss, perplexity, accuracy };
enum class BestDirection { automatic, lower, higher };
enum class Compared { none, quick, rolling, tensor, full };
enum class SavedComponent { model, optimizer, trainer, data, callbacks };
enum class OnDifference { fail, warn, repair };
enum class LogFormat { progress, structured };
enum class RecordOutput { standard_output, file };
enum class WandbMode { off, offline, online };
enum class MeasuredTensors { weights, gradients };
enum class WatchedPhase { start_up, load, step, evaluation, sample, save, shutdown };

struct ModelOptions {
  std::optional<std::string> config;  // Hugging Face config.json or its folder: weights initialised from train.seed
  std::optional<std::string> path;    // folder with config.json and safetensors: start from these weights
  std::optional<TokenizerChoice> tokenizer;  // no option: the tokenizer of the weights or network, if found
  std::optional<double> dropout;             // replaces all rates of config.json
  std::optional<double> embedding_dropout, attention_dropout, residual_dropout;  // replace a single rate
};

/// The source of a dataset's samples.
struct DatasetChoice {
  static constexpr const char* dummy = "dummy";        // path of a dataset without files: its tokens are generated
  std::string path;                                    // token shards of prepare-data, text, or dummy
  std::optional<std::string> name;                     // default: last part of the path
  std::optional<std::string> split;                    // default: data.train_split, or data.validation_split
  std::optional<std::string> hub_name;                 // configuration of a hub dataset; default: data.name
  std::optional<std::string> hub_split;                // split of a hub dataset; default: data.split
  std::optional<double> fraction;                      // of its samples, drawn by the seed
  std::optional<std::int64_t> samples;                 // the first N of these samples; for dummy, their number
  std::optional<PartChoice> shard;                     // part of these samples
  std::optional<std::int64_t> length;                  // tokens of a sample of dummy; default: data.sequence_length
  Defaulted<DummyTokens> tokens{DummyTokens::random};  // of dummy
  std::optional<std::string> prepared;  // no option: folder of the prepared text; not set: not prepared yet
  bool is_dummy() const { return path == dummy; }
  const std::string& folder() const { return prepared ? *prepared : path; }
};

struct TrainingDataset : DatasetChoice {
  std::optional<double> weight;  // set for all datasets or none; none: each sample once per epoch
};

struct EvaluationDataset : DatasetChoice {
  std::optional<std::int64_t> batches;  // default: eval.batches
};

struct DataOptions {
  std::vector<std::string> path;                 // token shards of prepare-data, or text; empty: datasets are given
  std::optional<std::string> prepared;           // no option: as DatasetChoice::prepared, for path
  PrepareData prepare = PrepareData::automatic;  // whether raw text is tokenized first
  std::optional<std::string> cache;              // cache folder for prepared text; default: beside the run folder
  PrepareDataOptions preparation;                // how text is tokenized
  std::vector<TrainingDataset> datasets;
  std::optional<PartChoice> shard;  // part of each dataset's samples
  std::string train_split = "train";
  std::string validation_split = "validation";
  std::int64_t sequence_length = 0;  // T, tokens per sample
  bool shuffle = true;
  std::optional<ShuffleWhere> shuffle_where;          // for mixtures; default: datasets with weights, mixture without
  bool isolate_documents = false;                     // attention does not cross document boundaries
  std::optional<std::int64_t> max_documents_per_row;  // maximum to plan for; default: sequence_length
  SamplePacking packing = SamplePacking::windows;     // how documents become samples
  Defaulted<std::int64_t> packing_group{100000};      // documents sorted together
  Defaulted<LongDocuments> long_documents{LongDocuments::split};
  Defaulted<std::int64_t> pad_to_multiple_of{1};  // tokens
  std::optional<std::int64_t> seed;               // of the sample order; default: train.seed
  bool repeat_order = false;                      // each epoch has the order of the first
  bool drop_last = false;                         // an epoch ends with its last whole step
  bool short_last_step = false;                   // an epoch ends with a step of the remaining samples
  std::int64_t prefetch = 2;                      // batches made ahead of their steps
  VerifyData verify = VerifyData::use;            // when shard hashes are verified
};

enum class AccumulateGradients { whole, shards, sums };
enum class MeshAxis { pp, dp_replicate, dp_shard, ring, ulysses, tp };
/// Context-parallel axes that shard the weights together with dp_shard.
enum class CpFsdpMode { all, ulysses_only, ring_only, none };
enum class StageSplitter { balanced };                                                            // plug-ins add names
enum class PipelineOrder { gpipe, one_f_one_b, interleaved_1f1b, interleaved_zero_bubble, zbv };  // plug-ins add names

struct ParallelOptions {
  std::optional<AxisSize> pp;            // pipeline-parallel degree: stages; default: 1
  std::vector<MeshAxis> order;           // of mesh axes, the fastest last; axes that are not listed come first
  std::optional<AxisSize> dp_replicate;  // ranks with equal state; default: the remaining ranks
  std::optional<AxisSize> dp_shard;      // FSDP degree; default: 1
  std::optional<AxisSize> ring;          // context-parallel degree of ring attention; default: 1
  std::optional<AxisSize> ulysses;       // context-parallel degree of Ulysses; default: 1
  Defaulted<CpFsdpMode> cp_fsdp_mode{CpFsdpMode::all};
  std::optional<AxisSize> tp;                         // tensor-parallel degree; default: 1
  Defaulted<bool> sequence_parallel{false};           // splits the residual stream by rows over tp
  Defaulted<std::int64_t> ep{1};                      // expert-parallel degree within a stage
  Defaulted<bool> ep_outside{false};                  // expert-parallel ranks are far apart, not neighbours
  Defaulted<double> ep_capacity{2};                   // expert rows of a round, relative to an even spread
  Defaulted<std::int64_t> zero{3};                    // ZeRO stage, 1 to 3
  std::optional<AccumulateGradients> accumulate;      // default: shards for stages 2 and 3, otherwise whole
  std::optional<AfterForward> reshard_after_forward;  // default: true for stage 3 only
  std::optional<bool> reshard_after_backward;         // default: true for stage 3 only
  Defaulted<std::int64_t> prefetch{1};                // units gathered ahead
  std::vector<NamePattern> units;       // patterns of tensors that form a unit of their own within a block
  std::optional<ByteSize> bucket_size;  // neighbouring blocks up to this size form a unit; default: each block
  Defaulted<PipelineOrder> schedule{PipelineOrder::one_f_one_b};  // pipeline schedule
  std::optional<std::int64_t> stages_per_rank;  // virtual stages; default: 2 for zbv and interleaved, else 1
  std::vector<std::string> split_points;  // first blocks of the stages after the first; empty: stage_splitter decides
  Defaulted<StageSplitter> stage_splitter{StageSplitter::balanced};
  std::optional<std::int64_t> micro_batches;           // of a pass through the schedule; default: given by the batch
  RankTransport transport = RankTransport::automatic;  // of data on devices
};

/// Returns whether weights that are sharded over dp_shard are sharded along this context-parallel axis too.
bool shards_along(const ParallelOptions& parallel, MeshAxis axis);

/// Loss scaling of fp16 training, as torch.amp.GradScaler: optim/loss_scale.hpp.
struct LossScaleOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps
  double min_scale = 1;
};

struct PostLocalSgdOptions {
  std::optional<std::int64_t> start_step;  // first local step, from 0; not set: no local SGD
  Defaulted<std::int64_t> period{4};       // steps between averages
  std::optional<std::int64_t> cell;        // data ranks that keep summing gradients; default: as dp_shard
};

enum class WeightsKept { master, bf16 };  // bf16: no other copy of the weights

struct PrecisionOptions {
  Precision dtype = Precision::fp32;
  std::optional<Precision> reduce_dtype;  // of gradient reduction; default: the master weights' type
  std::optional<Precision> output_dtype;  // of activations between blocks; default: the master weights' type
  WeightsKept weights = WeightsKept::master;
  MatmulPrecision matmul = MatmulPrecision::fp32;  // of products of fp32 matrices on a GPU
  bool product_search = false;                     // choose the algorithms of products on a GPU by time
  bool matrix_unit = true;                         // used where the processor has one
  LossScaleOptions loss_scale;
};

struct ScheduleOptions {
  ScheduleName name = ScheduleName::cosine;
  double start_lr = 0;  // absolute, like all rates here
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;  // instead, as a fraction of the run's steps
  WarmupFrom warmup_from = WarmupFrom::one;
  std::optional<std::int64_t> decay_steps;  // step at which the decay ends; default: the last step
  std::optional<double> decay_ratio;        // instead, as a fraction of the run's steps
  double min_lr = 0;
  std::optional<std::int64_t> cooldown_steps;  // of wsd: last steps of the decay; of infinite: last steps of the run
  std::optional<double> cooldown_ratio;        // instead, as a fraction of the run's steps
  Defaulted<CooldownShape> cooldown_shape{CooldownShape::linear};  // of wsd
  std::optional<double> constant_lr;                               // of infinite, between decay and cooldown
  Defaulted<std::int64_t> cycles{1};                               // of cosine
  Defaulted<double> power{2};                                      // of polynomial
  std::optional<std::int64_t> timescale;  // of inverse_sqrt, steps; default: warmup_steps, or 10000
};

struct PhaseLimit {
  WatchedPhase phase{};
  Seconds limit;  // instead of train.watchdog; 0: no limit
};

struct TrainOptions {
  static constexpr std::int64_t drawn_seed = -1;  // as seed: the run draws one and keeps it
  std::string run_dir;
  std::optional<std::int64_t> max_steps;     // not set: epochs is
  std::optional<double> epochs;              // of the data, instead of max_steps
  std::optional<std::int64_t> global_batch;  // samples of a step over all ranks; not set: the next two give it
  std::optional<std::int64_t> micro_batch;   // samples a rank computes at once; default: all of a step
  std::optional<std::int64_t> accumulation;  // passes through the schedule per step; default: given by the batch
  Recompute recompute;
  std::vector<RecomputeKeep> recompute_keeps;          // activations that recomputed blocks keep
  std::optional<ByteBudget> activation_memory_budget;  // per rank; chooses both of the above
  std::vector<Offload> offload;                        // state kept in host memory while it is not used
  std::optional<ByteSize> host_memory;                 // per rank, for offload; default: no limit
  std::int64_t seed = 0;                               // drawn_seed until a run resolves it
  LossName loss = LossName::cross_entropy;             // of training steps; evaluations use cross entropy
  double label_smoothing = 0;                          // share of the uniform distribution in that loss
  DeviceChoice device = DeviceChoice::automatic;
  std::optional<Seconds> max_time;
  std::optional<std::int64_t> threads;  // per rank; default: cores / local ranks
  bool memory_check = true;             // refuse to start if memory does not suffice
  std::vector<CallbackName> callbacks;
  std::optional<std::string> inject;             // an injected failure, for tests; parsed by comm
  OnNonfinite on_nonfinite = OnNonfinite::skip;  // a step with a loss or gradient that is not finite
  bool detect_anomaly = false;                   // then report the first such value
  Seconds watchdog{600};                         // deadline of each phase; 0: no limit
  std::vector<PhaseLimit> watchdog_phases;       // other deadlines of single phases
};

struct EvalOptions {
  Cadence every;                        // never: only as at_start, on_save and at_end say
  Delay delay;                          // no evaluation by `every` before this
  bool at_start = false;                // before the first step
  bool on_save = false;                 // before each save, except when the run is asked to stop
  std::optional<std::int64_t> batches;  // global batches, spread over the split; default: the whole split
  bool at_end = true;
  std::optional<std::int64_t> patience;     // early stopping: evaluations in a row without a gain; default: no limit
  double min_gain = 0;                      // smallest gain that counts for patience
  std::optional<std::int64_t> micro_batch;  // samples a rank evaluates at once; default: as in training
  std::optional<SamplePacking> packing;     // default: data.packing
  std::vector<EvaluationDataset> datasets;  // empty: validation splits of the training data
};

enum class DivergenceDetector { averages, windows };
enum class DivergenceLoss { eval_loss, loss };  // eval_loss: each evaluation; loss: each step
enum class DivergenceAction { stop, abort };    // stop: saves a checkpoint

struct DivergenceOptions {
  std::optional<DivergenceDetector> detector;  // default: none
  DivergenceLoss of = DivergenceLoss::eval_loss;
  double threshold = 2;
  std::int64_t few = 10, many = 100;  // losses in the two means that are compared
  DivergenceAction action = DivergenceAction::stop;
};

struct CheckpointOptions {
  Cadence every;                         // never: only when stopped and as at_end says
  std::optional<SaveInterval> interval;  // additional limit of the time between saves
  Seconds mtbf{24 * 3600};               // mean time between failures of the job, for interval auto
  std::int64_t keep_last = 2;
  std::int64_t keep_best = 1;  // checkpoints with the best values of best_metric
  BestMetric best_metric = BestMetric::loss;
  std::optional<std::string> best_dataset;  // name in eval.datasets; default: the first
  BestDirection best_direction = BestDirection::automatic;
  std::optional<std::int64_t> keep_every;  // keeps multiples of this step; default: none
  std::vector<std::int64_t> pinned;        // steps whose checkpoints are kept
  bool at_end = true;
  bool load_best_at_end = false;  // after the last save; for the last evaluation, texts and the export
  bool export_at_end = false;     // the last checkpoint (or the best) as a Hugging Face folder
  Resume resume;
  std::vector<std::string> allow_change;   // options, or sections, that may change on resume
  std::vector<NamePattern> only;           // components, or patterns of full names, to load from another run
  std::vector<NamePattern> skip;           // components or patterns that are not loaded
  std::vector<SavedComponent> components;  // that checkpoints hold; empty: all
  CheckpointStorage storage = CheckpointStorage::shared;  // of train.run_dir
  // Folder on a disk of each node where saves go first; default: saves go to train.run_dir.
  std::optional<std::string> local_dir;
  // Saves in local_dir that may wait for promotion; a further save waits, and training with it. Default: 8.
  std::optional<std::int64_t> max_unpromoted;
  RanksPerFile ranks_per_file;                      // ranks that share one part file
  Background background = Background::automatic;    // whether training continues while a copy of the state is written
  Defaulted<OnBusy> on_busy{OnBusy::wait};          // for a save that is due while one is running
  std::optional<ByteSize> snapshot_memory;          // for that copy; default: room for all of the state
  bool read_back = false;                           // read each save back and compare it before it counts
  std::vector<MetadataEntry> metadata;              // the user's notes, kept with each checkpoint
  Compared validation = Compared::tensor;           // how thoroughly a save compares replicas
  Defaulted<std::int64_t> validation_saves{8};      // of rolling: saves that together compare everything
  OnDifference on_difference = OnDifference::fail;  // for a save with differing replicas
  std::int64_t max_failures = 3;                    // consecutive failed saves that end the run
  // A start retries unreadable or incomplete checkpoints this long; a save waits this long for files to appear.
  Seconds patience{60};
};

/// Returns whether the run saves checkpoints at other times than on a stop or a request.
inline bool saves(const CheckpointOptions& checkpoint) {
  return checkpoint.every || checkpoint.interval || checkpoint.at_end;
}

/// Returns whether a checkpoint holds the component with this key (train/components.hpp).
bool is_saved(const CheckpointOptions& checkpoint, const std::string& key);

/// Returns whether checkpoints hold the state that a resume needs.
inline bool saves_all(const CheckpointOptions& checkpoint) {
  const auto& saved = checkpoint.components;
  return saved.empty() || (std::ranges::find(saved, SavedComponent::optimizer) != saved.end() &&
                           std::ranges::find(saved, SavedComponent::data) != saved.end());
}

/// Returns whether only a part of another run's checkpoint is loaded, if one is loaded.
inline bool takes_part(const CheckpointOptions& checkpoint) {
  return !checkpoint.only.empty() || !checkpoint.skip.empty();
}

struct LogOptions {
  Cadence every{.steps = 10};              // interval of step records
  bool first_step = false;                 // a record of the first step as well
  LogFormat format = LogFormat::progress;  // of log lines on standard error
  RecordOutput records = RecordOutput::standard_output;
  bool tensorboard = true;
  std::optional<std::string> tensorboard_dir;  // default: RUN/tensorboard
  WandbMode wandb = WandbMode::off;
  std::optional<std::string> wandb_project;  // default: the setting of W&B
  std::optional<std::string> wandb_name;     // default: name of the run folder
  std::vector<std::string> wandb_tags;
  std::optional<std::int64_t> wandb_every;         // steps between records for W&B; default: all records
  std::optional<std::string> wandb_dir;            // default: RUN/wandb
  std::vector<MeasuredTensors> statistics;         // tensors with records of statistics
  std::optional<Cadence> statistics_every;         // interval of statistics; default: every
  std::int64_t speed_from_step = 2;                // first step of a start, from 1, that counts for speeds
  std::optional<double> peak_tflops;               // of a rank's hardware; default: that of peak_device
  std::optional<std::string> peak_device;          // hardware of a rank, for MFU and plans; not set: of none
  std::optional<std::int64_t> profile_start_step;  // from 1; default: no profile
  std::optional<std::int64_t> profile_end_step;    // inclusive; default: profile_start_step
  std::optional<std::string> profile_dir;          // default: the run folder
  std::vector<std::int64_t> profile_ranks;         // ranks whose actions the trace shows; empty: all
  bool profile_shapes = false;                     // add samples, tokens, bytes and shapes to actions
  bool profile_memory = false;                     // add the memory of each rank over time
};

struct TrainConfig {
  std::vector<std::string> plugin;  // shared objects, opened in this order
  PluginValues plugin_values;       // of the options that plug-ins declare
  ModelOptions model;
  DataOptions data;
  ParallelOptions parallel;
  PostLocalSgdOptions post_local_sgd;
  PrecisionOptions precision;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  TrainOptions train;
  EvalOptions eval;
  DivergenceOptions divergence;
  SampleOptions sample;
  CheckpointOptions checkpoint;
  LogOptions log;
  // Options of the command line only:
  bool print_program = false;               // print the step programs and exit
  bool print_layout = false;                // print which rank holds which part of each tensor, and exit
  bool print_groups = false;                // print which tensors are updated alike, and exit
  bool print_components = false;            // print the components of a checkpoint, and exit
  std::optional<PlotTarget> plot_schedule;  // draw the learning rate over the steps, and exit
  std::optional<PlotTarget> plot_program;   // draw the time line of the step programs, and exit
  std::optional<std::string> program;       // print or draw only the step program of this name
  std::optional<std::int64_t> rank;         // print only the part of this rank
  // Plan for this number of ranks; neither they nor the dataset need to exist.
  std::optional<std::int64_t> world_size;
  std::optional<std::int64_t> ranks_per_node;  // of the planned ranks
  Defaulted<double> utilization{0.4};          // MFU that the hours of a plan assume
  std::optional<std::int64_t> profile;         // profile this number of steps, soon after the start
  bool eval_only = false;                      // evaluate the checkpoint, and exit
  std::vector<std::string> sample_texts;       // continue these texts, and exit
  std::vector<std::string> sample_files;       // and those in these files
  bool chat = false;                           // they are messages of a user
  std::optional<std::int64_t> calibrate;       // measure this number of steps and print the cost
  bool check_device = false;                   // compare the kernels of the run with the CPU's, and exit
  bool plan = false;                           // print the plan in full
  bool dry_run = false;                        // no option of this section: CommonOptions::dry_run
};

/// Returns whether the run calls a callback of this name.
inline bool calls(const TrainConfig& config, CallbackName name) {
  return std::ranges::find(config.train.callbacks, name) != config.train.callbacks.end();
}

/// Returns whether the run only continues texts (--sample, --sample-file).
inline bool samples_alone(const TrainConfig& config) {
  return !config.sample_texts.empty() || !config.sample_files.empty();
}

/// Returns whether the run uses the weights of a checkpoint or model as they are, and trains nothing.
inline bool reads_weights_alone(const TrainConfig& config) { return config.eval_only || samples_alone(config); }

/// Returns whether the run continues texts: alone, or in a callback.
inline bool samples_text(const TrainConfig& config) {
  return samples_alone(config) || calls(config, CallbackName::sample);
}

/// Returns whether data.path or data.datasets names training data.
inline bool names_training_data(const DataOptions& data) {
  return !data.datasets.empty() || std::ranges::any_of(data.path, [](const auto& word) { return !word.empty(); });
}

/// Returns whether the run evaluates at all.
inline bool evaluates(const TrainConfig& config) {
  const EvalOptions& eval = config.eval;
  return eval.every || eval.at_start || eval.on_save || eval.at_end || config.checkpoint.load_best_at_end ||
         config.eval_only;
}

/// The profiled steps of a run that resumes after `done` steps; nothing if no step is profiled.
struct ProfiledSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
std::optional<ProfiledSteps> profiled_steps(const TrainConfig& config, std::int64_t done);

/// Declares every option of a section, bound to the given fields. Local.
void describe(Declaration& visit, OptimizerGroup& group);
void describe(Declaration& visit, PhaseLimit& limit);
void describe(Declaration& visit, TrainingDataset& dataset);
void describe(Declaration& visit, EvaluationDataset& dataset);
void describe(Declaration& visit, TrainConfig& config);
Tool tool_of(const TrainConfig& config);

/// Adds a problem for each contradiction between options. Local, pure; opens no file.
void check(const TrainConfig& config, Problems& problems);

/// Returns the training datasets: data.datasets, or data.path as the only one. Local.
std::vector<TrainingDataset> training_datasets(const TrainConfig& config);

}  // namespace lockstep
