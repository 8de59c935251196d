// A run's own files besides checkpoints: config.yaml, tokenizer/, records.jsonl, tensorboard/, wandb/, loss.svg,
// final_metrics.json, which rank 0 owns. With them the folders that its checkpoints lie in.
#pragma once

#include "app/output.hpp"
#include "comm/communicator.hpp"
#include "comm/failure.hpp"
#include "config/train_config.hpp"
#include "corpus/tokenizer.hpp"
#include "report/recorder.hpp"
#include "train/run_folder.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// The folder of the run's local tier, if it has had one by this name. Local.
std::optional<Path> known_local_tier(const TrainConfig& config);

class RunFiles {
 public:
  /// Takes the folder of the run, and that of the local tier on `nodes` if there is one, below the folder that
  /// checkpoint.local_dir names. If a node cannot make that, the run goes on without a local tier. `log` outlives it.
  /// Collective over `world`. Throws what RunFolder throws, and Error(storage).
  RunFiles(Communicator& world, const TrainConfig& config, RunStorage storage, const RunStorage& nodes, Log& log);

  /// Writes config.yaml and, if there is one, tokenizer/; opens the sinks: records.jsonl, stdout unless it is a
  /// terminal, TensorBoard and W&B if configured. Collective over `world`. Throws Error(storage).
  void open(Communicator& world, const TrainConfig& config, const std::string& config_yaml, const Tokenizer* tokenizer);

  RunFolder& run() { return run_; }
  const Path& folder() const { return run_.path(); }
  /// Why the run has no local tier although it should; the same on all ranks.
  const std::optional<AgreedError>& tier_failure() const { return tier_failure_; }
  /// Null where saves go to the folder of the run at once.
  RunFolder* local() { return local_ ? &*local_ : nullptr; }
  /// The same as a resume takes it.
  std::optional<LocalTier> local_tier() const;
  Recorder& records() { return records_; }

  /// The last record, also as final_metrics.json; if that fails it is a warning. Local, on rank 0.
  void tell_end(const SummaryRecord& record);

  /// Ends the sinks, draws the losses of records.jsonl as loss.svg, and closes the folders; what of that fails is a
  /// warning. Local.
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
