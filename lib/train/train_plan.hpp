// The plan of a run, made from its configuration before any weight exists: model, data, mesh, batch arithmetic and step
// programs. --dry-run and --print-program print it; train/loop.hpp executes it.
#pragma once

#include "architecture/architecture.hpp"
#include "base/json_fwd.hpp"
#include "config/run_length.hpp"
#include "config/train_config.hpp"
#include "data/data_loader.hpp"
#include "data/dataset.hpp"
#include "data/mixture.hpp"
#include "device/device.hpp"
#include "engine/make_model_plan.hpp"
#include "exchange/file_tensors.hpp"
#include "layout/nodes.hpp"
#include "program/batch_plan.hpp"
#include "program/catalogue.hpp"
#include "program/dry_run.hpp"
#include "train/run_datasets.hpp"
#include "train/run_samples.hpp"
#include "train/train_state.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Returns the options for data in host memory. Local.
OffloadOptions offload_options(const TrainOptions& train);

/// EvaluationPlan describes an evaluated set.
struct EvaluationPlan {
  RunDataset set;
  std::string metrics;       // name of its metrics in records
  std::string identity;      // the evaluated data; losses with equal identities may be compared
  std::int64_t samples = 0;  // evaluated samples, over all ranks
  std::int64_t rounds = 0;   // executions of programs.eval that cover the samples
};

/// A device with memory of its own, of each rank: the one in use, or the one that a plan is for.
struct DeviceOfPlan {
  std::string name;
  std::string option = {};  // from which a plan without a job has it
  bool runs_plugin = true;  // as in DevicePeaks
  std::int64_t memory_bytes = 0;
  DeviceOverhead overhead = {};
  int multiprocessors = 0;  // of an NVIDIA GPU; 0: another device
  // of the one in use, when this rank has opened it
  std::optional<std::int64_t> free_bytes = {};
  bool uses_nccl = false;  // between ranks
};

/// PlannedFor has the facts of the ranks' device on which a plan depends; the default is the CPU.
struct PlannedFor {
  bool one_queue = false;                // it communicates one operation at a time, and the programs suit that
  std::int64_t vocabulary_multiple = 1;  // as in DeviceProperties
};

struct TrainPlan {
  Architecture architecture;
  Remarks weights;                                       // remarks on the files of model.path; on rank 0 alone
  std::vector<RunDataset> training;                      // empty if the datasets do not exist, and if !trains
  std::optional<Proportions> proportions;                // of the training datasets; not set: each sample once an epoch
  std::shared_ptr<const SampleSource> training_samples;  // of all training datasets; null if they do not exist
  std::vector<EvaluationPlan> evaluations;               // empty if the run does not evaluate
  // index of the evaluation that decides which checkpoint is the best
  std::size_t deciding = 0;
  // of the run, for people; empty if there is none or it is not known yet
  std::string tokenizer;
  // how the tokenizer of a dataset differs from that of the model; empty: it does not
  std::string tokenizer_warning;
  Mesh mesh;
  int ranks = 1;
  // false: --eval-only and --sample, which have no training data and execute only programs.eval, or prompt and token
  bool trains = true;
  BatchPlan batch;  // samples of a step, over ranks and micro-batches
  std::int64_t samples_per_epoch = 0;
  std::int64_t epoch_multiple = 1;  // DataLoaderSettings::epoch_multiple
  RunLength length;
  std::int64_t segments = 1;  // most segments of attention in a sample
  UnitTypes types;            // of weights, gradients and optimizer state
  Buckets buckets;            // as units_of takes them
  ModelPlan model;
  // for micro-batches of evaluations; not set: as `model`
  std::optional<ModelPlan> evaluated_model;
  Catalogue programs;  // verified over all ranks
  // Texts that are continued at once, and the model on them; not set: no text is continued.
  std::optional<TextShape> texts;
  std::optional<TextPlans> text_models;
  double flops_per_token = 0;
  // most bytes of a rank's copies for saves in the background; not set: saves are synchronous
  std::optional<std::int64_t> snapshot_limit;
  bool saves_weights_alone = false;  // such copies hold no optimizer state
  // with checkpoint.background auto: why saves are synchronous
  std::string no_snapshot;
  // not set: the CPU
  std::optional<DeviceOfPlan> device;

  /// Returns the name of the deciding set in the metrics of checkpoints: "validation".
  std::string deciding_metrics(const TrainConfig& config) const;
  /// Returns the identity of the deciding evaluation; empty if the run does not evaluate.
  std::string evaluation() const { return evaluations.empty() ? std::string() : evaluations[deciding].identity; }
  /// Returns the dataset that has the tokenizer of the run; null if all data is dummy data.
  const Dataset* dataset_with_tokenizer() const;
  /// Return the bytes of all weights and of the optimizer state, in the types stored in a checkpoint.
  std::int64_t weight_bytes() const;
  std::int64_t state_bytes() const;
  /// Returns the bytes of such copies on rank `rank`.
  std::int64_t snapshot_bytes(Rank rank) const;
  /// Returns the most bytes of rank `rank` while it loads a checkpoint, before its first step: its state, and the
  /// blocks that it reads, forwards and receives.
  std::int64_t load_bytes(Rank rank) const;
  /// Returns the samples and tokens trained on, by the name of each dataset; null if datasets have no names, or if it
  /// is not known.
  std::shared_ptr<const Json> uses_by_name(const TrainConfig& config, const TrainState& state) const;
  /// Returns the number of samples in all steps of the run.
  std::int64_t samples_of_run(const TrainConfig& config) const;
  /// Returns the values that a start on other ranks keeps.
  ResolvedRun resolved(const TrainConfig& config) const;
  /// Returns the model that a program of `programs` runs.
  const ModelPlan& model_of(const StepProgram& program) const;
  /// Returns the settings of the data loader of rank `rank`.
  DataLoaderSettings loader(const TrainConfig& config, SampleUse use, Rank rank) const;
};

/// WithoutDataset says whether a plan needs the datasets. A start needs them. A plan for other machines may do without:
/// then it has no training data and no evaluation.
enum class WithoutDataset { refused, planned };

/// Makes the plan for `ranks` ranks. `processor` describes their processors, `weights` the files of model.path, and
/// `kept` the run before, as kept_run returns it. Local; opens the model's config and the datasets, reads no weights.
/// Throws Error(usage) for options that contradict model, data or the run before, and for more data-parallel ranks than
/// samples in a step; Error(input) for a missing or malformed file; Error(resources) if a step program needs more host
/// memory than train.host_memory.
TrainPlan make_train_plan(const TrainConfig& config, int ranks, const Processor& processor,
                          const std::optional<ResolvedRun>& kept, const WeightsReport& weights,
                          WithoutDataset without = WithoutDataset::refused, const PlannedFor& device = {});

/// Returns the plan as rows: mesh, coordinates of ranks on it and on `nodes`, batch arithmetic, parameters, memory of a
/// rank by kind, FLOPs of a step, size of a checkpoint, cost of the run. Local.
std::vector<Row> rows_of(const TrainConfig& config, const TrainPlan& plan, const Placement& placement);

}  // namespace lockstep
