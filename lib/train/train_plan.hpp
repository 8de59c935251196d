// What a run will do, decided from its configuration before any weight exists: model, data, mesh, batch arithmetic and
// step programs. The same value answers --dry-run and --print-program. Who carries it out: train/loop.hpp.
#pragma once

#include "architecture/architecture.hpp"
#include "architecture/file_tensors.hpp"
#include "base/json_fwd.hpp"
#include "config/run_length.hpp"
#include "config/train_config.hpp"
#include "data/data_loader.hpp"
#include "data/dataset.hpp"
#include "data/mixture.hpp"
#include "engine/make_model_plan.hpp"
#include "layout/nodes.hpp"
#include "model/sampled_text.hpp"
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

/// What lies in host memory. Local.
OffloadOptions offload_options(const TrainOptions& train);

/// A set that is evaluated.
struct EvaluationPlan {
  RunDataset set;
  std::string metrics;       // what its losses are recorded as
  std::string identity;      // what is evaluated: losses may be compared where it is equal
  std::int64_t samples = 0;  // of all that the set has
  std::int64_t rounds = 0;   // executions of programs.eval that cover it
};

struct TrainPlan {
  Architecture architecture;
  Remarks weights;                                       // on the files of model.path; on rank 0 alone
  std::vector<RunDataset> training;                      // empty if they are not there
  std::optional<Proportions> proportions;                // of them; absent: each sample once an epoch
  std::shared_ptr<const SampleSource> training_samples;  // of all of them; null if they are not there
  std::vector<EvaluationPlan> evaluations;               // empty if the run does not evaluate
  std::size_t deciding = 0;                              // of them, whose loss says what the best is
  std::string tokenizer;          // of the run, for people; empty where there is none, or nothing says it
  std::string tokenizer_warning;  // how that of a dataset differs from that of the model; empty: it does not
  Mesh mesh;
  int ranks = 1;
  BatchPlan batch;  // samples of a step over ranks and micro-batches
  std::int64_t samples_per_epoch = 0;
  std::int64_t epoch_multiple = 1;  // as loaders take it
  RunLength length;
  std::int64_t segments = 1;  // of a sample, which attention keeps apart, at most
  UnitTypes types;            // of weights, gradients and optimizer state
  Buckets buckets;            // as units_of takes them
  ModelPlan model;
  std::optional<ModelPlan> evaluated_model;  // on micro-batches of evaluations; absent: as model
  Catalogue programs;                        // verified over all ranks
  TextWindow text;                           // of texts that are sampled
  std::optional<ModelPlan> text_model;       // on the longest of them; absent if none are
  double flops_per_token = 0;
  std::optional<std::int64_t> snapshot_limit;  // bytes of a rank's copies for saves in the background; absent: none
  bool saves_weights_alone = false;            // of what these could copy
  std::string no_snapshot;                     // why saves are waited for that checkpoint.background auto left open

  /// What decides which evaluation is the best, as checkpoints name its metrics: "validation".
  std::string deciding_metrics(const TrainConfig& config) const;
  /// The identity of what decides; empty if the run does not evaluate.
  std::string evaluation() const { return evaluations.empty() ? std::string() : evaluations[deciding].identity; }
  /// The one whose tokenizer is that of the run; null where all tokens are made.
  const Dataset* dataset_with_tokenizer() const;
  /// What rank `rank` holds of such copies.
  std::int64_t snapshot_bytes(Rank rank) const;
  /// What it has at most as it loads a checkpoint, which it does before its first step: its state, and blocks that are
  /// read, handed on and received.
  std::int64_t load_bytes(Rank rank) const;
  /// What of each dataset was trained on, by name; null where datasets have none, or it is not known.
  std::shared_ptr<const Json> uses_by_name(const TrainConfig& config, const TrainState& state) const;
  /// Of all of its steps.
  std::int64_t samples_of_run(const TrainConfig& config) const;
  /// What a start on other ranks goes by.
  ResolvedRun resolved(const TrainConfig& config) const;
  /// The model that a program of `programs` runs.
  const ModelPlan& model_of(const StepProgram& program) const;
  /// How rank `rank` is fed.
  DataLoaderSettings loader(const TrainConfig& config, SampleUse use, Rank rank) const;
};

/// A start needs the datasets; a plan for other machines may do without those that are not there: nothing of them, and
/// no evaluation, is planned then.
enum class WithoutDataset { refused, planned };

/// For ranks with such a `processor` and model.path with such `weights`; `kept`, as kept_run says, is of the run
/// before. Local; opens the model's config and the datasets, reads no weights. Throws Error(usage) for what contradicts
/// model, data, ranks or the run before, Error(input) for a missing or malformed file, Error(resources) for more ranks
/// than samples a step.
TrainPlan make_train_plan(const TrainConfig& config, int ranks, const Processor& processor,
                          const std::optional<ResolvedRun>& kept, const WeightsReport& weights,
                          WithoutDataset without = WithoutDataset::refused);

/// What the plan says: mesh, coordinates of ranks on it and on `nodes`, batch arithmetic, parameters, memory of a rank
/// by kind, FLOPs of a step, size of a checkpoint. Local.
std::vector<Row> rows_of(const TrainConfig& config, const TrainPlan& plan, const Placement& placement);

}  // namespace lockstep
