// What a training run is told: the canonical sections, keys as in the files. describe() is the one declaration of them,
// from which the parser, help, manual, completion and schema come (config/option.hpp). How a command line becomes a
// TrainConfig: config/command_line.hpp.
#pragma once

#include "base/precision.hpp"
#include "config/optimizer_options.hpp"
#include "config/packing_options.hpp"
#include "config/plugin_options.hpp"
#include "config/prepare_config.hpp"
#include "config/sample_options.hpp"
#include "config/values.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

enum class ScheduleName { linear, cosine, constant, polynomial, inverse_sqrt, wsd, infinite };  // and of plug-ins
enum class CooldownShape { linear, cosine, sqrt };
enum class WarmupFrom { one, zero };  // of the steps of warm-up
enum class Device { cpu, cuda };
enum class CallbackName { sample };  // and of plug-ins
enum class Offload { optimizer, shards, activations };
enum class RecomputeKeep { attention, projections, mlp, matmul, experts };
enum class OnNonfinite { skip, stop };
enum class LossName { cross_entropy };  // and of plug-ins
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
enum class WandbMode { off, offline, online };
enum class MeasuredTensors { weights, gradients };
enum class WatchedPhase { start_up, load, step, evaluation, sample, save, shutdown };

struct ModelOptions {
  std::optional<std::string> config;         // a Hugging Face config.json or its folder: initialised from train.seed
  std::optional<std::string> path;           // a folder with config.json and safetensors: start from these weights
  std::optional<TokenizerChoice> tokenizer;  // no option: the tokenizer of the weights or the network, if found
  std::optional<double> dropout;             // instead of all rates in the config
  std::optional<double> embedding_dropout, attention_dropout, residual_dropout;  // instead of one
};

/// Where the samples of a dataset come from.
struct DatasetChoice {
  static constexpr const char* dummy = "dummy";  // as a path: no files, but tokens that are made
  std::string path;                              // a folder that prepare-data wrote; or text; or dummy
  std::optional<std::string> name;               // absent: what the path ends with
  std::optional<std::string> split;              // absent: data.train_split, or data.validation_split
  std::optional<std::int64_t> samples;           // the first so many; of dummy: how many there are
  std::optional<PartChoice> shard;               // of these
  std::optional<std::int64_t> length;            // of samples of dummy, tokens; absent: data.sequence_length
  std::optional<DummyTokens> tokens;             // of dummy; absent: random
  std::optional<std::string> prepared;           // no option: the folder that text was prepared in; empty: not yet
  bool is_dummy() const { return path == dummy; }
  const std::string& folder() const { return prepared ? *prepared : path; }
};

struct TrainingDataset : DatasetChoice {
  std::optional<double> weight;  // absent of all of them: each sample once an epoch
};

struct EvaluationDataset : DatasetChoice {
  std::optional<std::int64_t> batches;  // absent: eval.batches
};

struct DataOptions {
  std::vector<std::string> path;                 // a folder that prepare-data wrote, or text; empty: there are datasets
  std::optional<std::string> prepared;           // no option: as in DatasetChoice, of path
  PrepareData prepare = PrepareData::automatic;  // whether text is prepared
  std::optional<std::string> cache;              // the folder for it; absent: beside the run folder
  PrepareDataOptions preparation;                // how
  std::vector<TrainingDataset> datasets;
  std::optional<PartChoice> shard;  // of each dataset's samples
  std::string train_split = "train";
  std::string validation_split = "validation";
  std::int64_t sequence_length = 0;  // T, tokens a sample
  bool shuffle = true;
  std::optional<ShuffleWhere> shuffle_where;          // of datasets; absent: datasets with weights, mixture without
  bool isolate_documents = false;                     // attention does not cross document boundaries
  std::optional<std::int64_t> max_documents_per_row;  // that are planned for; absent: as many as tokens
  SamplePacking packing = SamplePacking::windows;     // what a sample is
  std::optional<std::int64_t> packing_group;          // documents that are sorted at once; absent: 100000
  std::optional<LongDocuments> long_documents;        // absent: split
  std::optional<std::int64_t> pad_to_multiple_of;     // tokens; absent: 1
  std::optional<std::int64_t> seed;                   // of the order of samples; absent: train.seed
  bool repeat_order = false;                          // each epoch has the order of the first
  bool drop_last = false;                             // an epoch ends with its last whole step
  bool short_last_step = false;                       // or with one of the samples that are left
  std::int64_t prefetch = 2;                          // batches made ahead of the steps that take them
  VerifyData verify = VerifyData::use;                // when the hashes of shards are checked
};

enum class AccumulateGradients { whole, shards, sums };
enum class MeshAxis { pp, dp_replicate, dp_shard, ring, ulysses, tp };
/// Which axes of context parallelism share out the weights too where dp_shard does.
enum class CpFsdpMode { all, ulysses_only, ring_only, none };
enum class StageSplitter { balanced };                                                            // and of plug-ins
enum class PipelineOrder { gpipe, one_f_one_b, interleaved_1f1b, interleaved_zero_bubble, zbv };  // and of plug-ins

struct ParallelOptions {
  std::optional<AxisSize> pp;                     // ranks that share out the blocks of a model, in stages; absent: 1
  std::vector<MeshAxis> order;                    // of axes, the fastest last; those that are not named are slower
  std::optional<AxisSize> dp_replicate;           // ranks that hold equal state; absent: those that are left
  std::optional<AxisSize> dp_shard;               // ranks that share out a whole model; absent: 1
  std::optional<AxisSize> ring;                   // ranks that share the rows of sequences; absent: 1
  std::optional<AxisSize> ulysses;                // the same; absent: 1
  std::optional<CpFsdpMode> cp_fsdp_mode;         // absent: all
  std::optional<AxisSize> tp;                     // ranks that share each block; absent: 1
  std::optional<bool> sequence_parallel;          // they share the stream between matrices too, by rows; absent: no
  std::optional<std::int64_t> ep;                 // ranks of a stage that share out experts; absent: 1
  std::optional<bool> ep_outside;                 // these are far from each other, not neighbours; absent: no
  std::optional<double> ep_capacity;              // rows that a rank's experts take at once; absent: 2
  std::optional<std::int64_t> zero;               // stage of ZeRO, 1 to 3; absent: 3
  std::optional<AccumulateGradients> accumulate;  // absent: shards for stages 2 and 3, otherwise whole
  std::optional<AfterForward> reshard_after_forward;  // absent: only with stage 3
  std::optional<bool> reshard_after_backward;         // the same
  std::optional<std::int64_t> prefetch;               // units gathered ahead; absent: 1
  std::vector<NamePattern> units;                     // that modules of a block form; empty: each block is one
  std::optional<ByteSize> bucket_size;                // of gradients that are reduced at once; absent: those of a block
  std::optional<PipelineOrder> schedule;              // of stages; absent: 1f1b
  std::optional<std::int64_t> stages_per_rank;        // absent: 2 for zbv and the interleaved schedules, else 1
  std::vector<std::string> split_points;              // blocks that stages after the first begin at; empty: the next
  std::optional<StageSplitter> stage_splitter;        // says where; absent: balanced
  std::optional<std::int64_t> micro_batches;          // of one pass through the schedule; absent: what the batch gives
};

/// Whether weights that dp_shard shares out are cut along this axis of context parallelism too.
bool shards_along(const ParallelOptions& parallel, MeshAxis axis);

/// Of training in fp16, as torch.amp.GradScaler: optim/loss_scale.hpp.
struct LossScaleOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps
  double min_scale = 1;
};

struct PostLocalSgdOptions {
  std::optional<std::int64_t> start_step;  // the first local step, counted from 0; absent: there is none
  std::optional<std::int64_t> period;      // steps from an average to the next; absent: 4
  std::optional<std::int64_t> cell;        // data ranks that go on summing gradients; absent: those of dp_shard
};

enum class WeightsKept { master, bf16 };  // bf16: in it alone

struct PrecisionOptions {
  Precision dtype = Precision::fp32;
  std::optional<Precision>
      reduce_dtype;  // in which gradients are summed over ranks; absent: that of the master weights
  std::optional<Precision> output_dtype;  // of what blocks hand to each other; absent: that of the master weights
  WeightsKept weights = WeightsKept::master;
  bool matrix_unit = true;  // where the processor has one
  LossScaleOptions loss_scale;
};

struct ScheduleOptions {
  ScheduleName name = ScheduleName::cosine;
  double start_lr = 0;  // absolute, as all rates here
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;  // of the steps of the run, instead
  WarmupFrom warmup_from = WarmupFrom::one;
  std::optional<std::int64_t> decay_steps;  // step at which min_lr is reached; absent: the last one
  std::optional<double> decay_ratio;        // of the steps of the run, instead
  double min_lr = 0;
  std::optional<std::int64_t> cooldown_steps;   // of wsd and infinite: the last ones of the decay, or of the run
  std::optional<double> cooldown_ratio;         // of the steps of the run, instead
  std::optional<CooldownShape> cooldown_shape;  // of wsd; absent: linear
  std::optional<double> constant_lr;            // of infinite, between decay and cooldown
  std::optional<std::int64_t> cycles;           // of cosine; absent: 1
  std::optional<double> power;                  // of polynomial; absent: 2
  std::optional<std::int64_t> timescale;        // of inverse_sqrt, steps; absent: those of warm-up, or 10000
};

struct PhaseLimit {
  WatchedPhase phase{};
  Seconds limit;  // instead of train.watchdog; 0: none
};

struct TrainOptions {
  static constexpr std::int64_t drawn_seed = -1;  // as seed: a run draws one and keeps it
  std::string run_dir;
  std::optional<std::int64_t> max_steps;     // absent: epochs says
  std::optional<double> epochs;              // of the data, instead
  std::optional<std::int64_t> global_batch;  // samples a step, over all ranks; absent: the next two say
  std::optional<std::int64_t> micro_batch;   // samples a rank computes at once; absent: all of its samples of a step
  std::optional<std::int64_t> accumulation;  // passes through the schedule a step; absent: what the batch gives
  Recompute recompute;
  std::vector<RecomputeKeep> recompute_keeps;          // what blocks that are recomputed keep from forward all the same
  std::optional<ByteBudget> activation_memory_budget;  // a rank's: both are chosen for it
  std::vector<Offload> offload;                        // what lies in host memory while nothing uses it
  std::optional<ByteSize> host_memory;                 // a rank's, for that; absent: no limit
  std::int64_t seed = 0;                               // drawn_seed until a run resolves it
  LossName loss = LossName::cross_entropy;             // of steps, not of evaluations
  double label_smoothing = 0;                          // share of that loss
  Device device = Device::cpu;
  std::optional<Seconds> max_time;
  std::optional<std::int64_t> threads;  // a rank; absent: cores / local ranks
  bool memory_check = true;             // whether a start that memory is missing for is refused
  std::vector<CallbackName> callbacks;
  std::optional<std::string> inject;             // a failure to bring about, for tests; parsed by comm
  OnNonfinite on_nonfinite = OnNonfinite::skip;  // a step whose loss or gradient is not finite
  bool detect_anomaly = false;                   // then what of it was the first
  Seconds watchdog{600};                         // deadline of each phase; 0: none
  std::vector<PhaseLimit> watchdog_phases;       // where it is another one
};

struct EvalOptions {
  Cadence every;                        // never: only as the next ones say
  Delay delay;                          // before which every says nothing
  bool at_start = false;                // before the first step
  bool on_save = false;                 // before each save but that of a stop
  std::optional<std::int64_t> batches;  // global batches an evaluation, spread over the split; absent: all of it
  bool at_end = true;
  std::optional<std::int64_t> patience;  // evaluations in a row without a gain that finish the run; absent: any number
  double min_gain = 0;                   // that counts for it
  std::optional<std::int64_t> micro_batch;  // samples a rank evaluates at once; absent: those of training
  std::optional<SamplePacking> packing;     // absent: that of data.packing
  std::vector<EvaluationDataset> datasets;  // empty: the validation splits of what is trained on
};

enum class DivergenceDetector { averages, windows };
enum class DivergenceLoss { eval_loss, loss };  // of each evaluation, of each step
enum class DivergenceAction { stop, abort };    // stop: with a checkpoint

struct DivergenceOptions {
  std::optional<DivergenceDetector> detector;  // absent: nobody looks
  DivergenceLoss of = DivergenceLoss::eval_loss;
  double threshold = 2;
  std::int64_t few = 10, many = 100;  // losses of the two means that are compared
  DivergenceAction action = DivergenceAction::stop;
};

struct CheckpointOptions {
  Cadence every;                         // never: only when stopped and as at_end says
  std::optional<SaveInterval> interval;  // time between saves besides
  Seconds mtbf{24 * 3600};               // mean time between failures of the job, for an interval that is automatic
  std::int64_t keep_last = 2;
  std::int64_t keep_best = 1;  // those with the best value of best_metric
  BestMetric best_metric = BestMetric::loss;
  std::optional<std::string> best_dataset;  // of eval.datasets, by its name; absent: the first
  BestDirection best_direction = BestDirection::automatic;
  std::optional<std::int64_t> keep_every;  // steps whose multiples stay; absent: none
  std::vector<std::int64_t> pinned;        // steps that stay
  bool at_end = true;
  bool load_best_at_end = false;  // for the last evaluation, texts and the export, after the last checkpoint
  bool export_at_end = false;     // a Hugging Face folder of it, or of the best
  Resume resume;
  std::vector<std::string> allow_change;   // options that are fixed on resume otherwise, or sections of them
  std::vector<NamePattern> only;           // components, or patterns of full names, of another run that are loaded
  std::vector<NamePattern> skip;           // that are not
  std::vector<SavedComponent> components;  // that checkpoints hold; empty: all
  CheckpointStorage storage = CheckpointStorage::shared;  // what train.run_dir is on
  std::optional<std::string> local_dir;        // where saves go first, on a disk of each node; absent: to train.run_dir
  std::optional<std::int64_t> max_unpromoted;  // saves there that training goes on with at most; absent: 8
  RanksPerFile ranks_per_file;                 // that share one part file
  Background background = Background::automatic;  // whether training goes on while a copy of the state is written
  std::optional<OnBusy> on_busy;            // what becomes of a save that is due while one is under way; absent: wait
  std::optional<ByteSize> snapshot_memory;  // for that copy; absent: for all of it at once
  bool read_back = false;                   // whether what a save wrote is read anew and compared before it counts
  std::vector<MetadataEntry> metadata;      // kept with each checkpoint, for people
  Compared validation = Compared::tensor;   // how deeply a save compares what ranks hold alike
  std::optional<std::int64_t> validation_saves;     // of rolling: saves that together compare all; absent: 8
  OnDifference on_difference = OnDifference::fail;  // what a save does about ranks that should hold the same and do not
  std::int64_t max_failures = 3;                    // failed saves in a row that end the run
  Seconds patience{60};                             // how long a start, and a save, look anew at what is not seen
};

/// Whether checkpoints are saved but those of a stop, or on request.
inline bool saves(const CheckpointOptions& checkpoint) {
  return checkpoint.every || checkpoint.interval || checkpoint.at_end;
}

/// Whether a checkpoint holds the component of this key (train/components.hpp).
bool is_saved(const CheckpointOptions& checkpoint, const std::string& key);

/// Whether checkpoints hold all that a run goes on from.
inline bool saves_all(const CheckpointOptions& checkpoint) {
  const auto& saved = checkpoint.components;
  return saved.empty() || (std::ranges::find(saved, SavedComponent::optimizer) != saved.end() &&
                           std::ranges::find(saved, SavedComponent::data) != saved.end());
}

/// Whether a part of another run's checkpoint is loaded, where one is.
inline bool takes_part(const CheckpointOptions& checkpoint) {
  return !checkpoint.only.empty() || !checkpoint.skip.empty();
}

struct LogOptions {
  Cadence every{.steps = 10};              // of step records
  bool first_step = false;                 // has one besides
  LogFormat format = LogFormat::progress;  // of what goes to standard error
  bool tensorboard = true;
  std::optional<std::string> tensorboard_dir;  // absent: RUN/tensorboard
  WandbMode wandb = WandbMode::off;
  std::optional<std::string> wandb_project;  // absent: that of W&B's settings
  std::optional<std::string> wandb_name;     // absent: the name of the run folder
  std::vector<std::string> wandb_tags;
  std::optional<std::int64_t> wandb_every;         // steps at whose multiples a record goes there; absent: all records
  std::optional<std::string> wandb_dir;            // absent: RUN/wandb
  std::vector<MeasuredTensors> statistics;         // what has records of statistics
  std::optional<Cadence> statistics_every;         // and how often; absent: as every
  std::int64_t speed_from_step = 2;                // of those of a start, counted from 1, the first that counts
  std::optional<double> peak_tflops;               // of the hardware of one rank; absent: as peak_device says
  std::optional<std::string> peak_device;          // a product; absent: mfu is not known
  std::optional<std::int64_t> profile_start_step;  // counted from 1; absent: no profile
  std::optional<std::int64_t> profile_end_step;    // included; absent: profile_start_step
  std::optional<std::string> profile_dir;          // absent: the folder of the run
  std::vector<std::int64_t> profile_ranks;         // whose actions the trace shows; empty: all
  bool profile_shapes = false;                     // what each action works on
  bool profile_memory = false;                     // memory of each rank over time
};

struct TrainConfig {
  std::vector<std::string> plugin;  // shared objects, in the order in which they are opened
  PluginValues plugin_values;       // of the options that these declare
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
  // Of the command line only:
  bool print_program = false;                  // print the step programs and exit
  bool print_layout = false;                   // print which rank holds what of each tensor and exit
  bool print_groups = false;                   // print which tensors are updated alike and exit
  bool print_components = false;               // print what a checkpoint is made of and exit
  std::optional<PlotTarget> plot_schedule;     // draw the learning rate over the steps and exit
  std::optional<PlotTarget> plot_program;      // draw the time line of the step programs and exit
  std::optional<std::string> program;          // of step programs, print or draw the one of this name
  std::optional<std::int64_t> rank;            // what is printed of all ranks is printed of this one alone
  std::optional<std::int64_t> world_size;      // plan for so many ranks, whether they and the dataset are there or not
  std::optional<std::int64_t> ranks_per_node;  // of the ranks that are planned for
  std::optional<std::int64_t> profile;         // steps to profile, soon after the start
  bool eval_only = false;                      // evaluate the checkpoint and exit
  bool plan = false;                           // the plan in full
};

/// Whether a callback of this name is called.
inline bool calls(const TrainConfig& config, CallbackName name) {
  return std::ranges::find(config.train.callbacks, name) != config.train.callbacks.end();
}

/// Whether anything is evaluated.
inline bool evaluates(const TrainConfig& config) {
  const EvalOptions& eval = config.eval;
  return eval.every || eval.at_start || eval.on_save || eval.at_end || config.checkpoint.load_best_at_end ||
         config.eval_only;
}

/// The steps that are profiled in a run that goes on after `done` steps; absent: none.
struct ProfiledSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
std::optional<ProfiledSteps> profiled_steps(const TrainConfig& config, std::int64_t done);

/// Declares every option of a section, bound to the fields of `options`. Local.
void describe(Declaration& visit, OptimizerGroup& group);
void describe(Declaration& visit, PhaseLimit& limit);
void describe(Declaration& visit, TrainingDataset& dataset);
void describe(Declaration& visit, EvaluationDataset& dataset);
void describe(Declaration& visit, TrainConfig& config);
Tool tool_of(const TrainConfig& config);

/// Adds what contradicts itself across options. Local, pure; opens no file.
void check(const TrainConfig& config, Problems& problems);

/// What is trained on: data.datasets, or data.path as the only one. Local.
std::vector<TrainingDataset> training_datasets(const TrainConfig& config);

}  // namespace lockstep
