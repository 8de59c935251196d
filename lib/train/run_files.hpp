// The files of a run besides checkpoints, owned by rank 0: config.yaml, tokenizer/, records.jsonl, tensorboard/,
// wandb/, loss.svg, final_metrics.json. Also the folders that hold its checkpoints: train/run_folder.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/communicator.hpp"
#include "comm/failure.hpp"
#include "config/train_config.hpp"
#include "report/recorder.hpp"
#include "tokenizer/tokenizer.hpp"
#include "train/run_folder.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Returns the folder of the run's local tier if one of this name exists. Local.
std::optional<Path> known_local_tier(const TrainConfig& config);

class RunFiles {
 public:
  /// Opens and locks the run folder. With checkpoint.local_dir also opens the local tier below it on `nodes`; if a node
  /// cannot create it, the run continues without a local tier. `log` must outlive it. Collective over `world`. Throws
  /// as RunFolder does, Error(storage).
  RunFiles(Communicator& world, const TrainConfig& config, RunStorage storage, const RunStorage& nodes, Log& log);

  /// Writes config.yaml and, if there is a tokenizer, tokenizer/. Opens the sinks: records.jsonl; stdout unless it is a
  /// terminal or log.records is file; TensorBoard and W&B if configured. Collective over `world`. Throws
  /// Error(storage).
  void open(Communicator& world, const TrainConfig& config, const std::string& config_yaml, const Tokenizer* tokenizer);

  RunFolder& run() { return run_; }
  const Path& folder() const { return run_.path(); }
  /// Returns why the run lacks its configured local tier; equal on all ranks.
  const std::optional<AgreedError>& tier_failure() const { return tier_failure_; }
  /// Returns the local tier; null if saves go directly to the run folder.
  RunFolder* local() { return local_ ? &*local_ : nullptr; }
  /// Returns the local tier in the form that a resume takes.
  std::optional<LocalTier> local_tier() const;
  Recorder& records() { return records_; }

  /// Writes the last record, and the summary of the run as final_metrics.json; a failure of that file is a warning.
  /// Local, on rank 0.
  void report_end(const SummaryRecord& record, const SummaryRecord& run);

  /// Closes the sinks, draws the losses of records.jsonl as loss.svg, and closes the folders. Failures are warnings.
  /// Local.
  void close();

 private:
  void close_records();

  bool owns_records_;
  Log& log_;
  RunFolder run_;
  std::optional<RunFolder> local_;
  std::optional<AgreedError> tier_failure_;
  Recorder records_;
};

}  // namespace lockstep
