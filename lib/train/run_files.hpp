// A run's own files besides checkpoints: the lock, config.yaml, tokenizer/, records.jsonl, tensorboard/, loss.svg. Rank
// 0 owns them.
#pragma once

#include "app/output.hpp"
#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "corpus/tokenizer.hpp"
#include "report/record_sink.hpp"
#include "store/run_directory.hpp"

#include <optional>
#include <string>

namespace lockstep {

class RunFiles {
 public:
  /// Locks the run directory. Collective over `world`. Throws Error(usage) on all ranks if another job holds it.
  RunFiles(Communicator& world, const Path& folder);

  /// Writes config.yaml and tokenizer/, opens the sinks: records.jsonl, stdout unless it is a terminal, TensorBoard if
  /// configured. Collective over `world`. Throws Error(storage).
  void open(Communicator& world, const TrainConfig& config, const std::string& config_yaml, const Tokenizer& tokenizer);

  const Path& folder() const { return folder_; }
  Recorder& records() { return records_; }

  /// Draws the losses of records.jsonl as loss.svg and ends the sinks. Collective over `world`. Throws Error(storage).
  void close(Communicator& world);

 private:
  Path folder_;
  std::optional<RunLock> lock_;
  Recorder records_;
};

}  // namespace lockstep
