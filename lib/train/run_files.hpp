// A run's own files besides checkpoints: the lock, config.yaml, tokenizer/, records.jsonl, tensorboard/, loss.svg. Rank
// 0 owns them, but for the lock and what is deleted: there each storage of the run's folder has a keeper.
#pragma once

#include "app/output.hpp"
#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "corpus/tokenizer.hpp"
#include "report/recorder.hpp"
#include "store/run_directory.hpp"
#include "store/run_storage.hpp"
#include "store/trash.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

class RunFiles {
 public:
  /// Locks the run directory and clears away what killed jobs left in it. `log` outlives it. Collective over `world`.
  /// Throws Error(usage) on all ranks if another job holds it, or nodes that should have storage of their own share it.
  RunFiles(Communicator& world, const Path& folder, RunStorage storage, Log& log);

  /// Writes config.yaml and tokenizer/, opens the sinks: records.jsonl, stdout unless it is a terminal, TensorBoard if
  /// configured. Collective over `world`. Throws Error(storage).
  void open(Communicator& world, const TrainConfig& config, const std::string& config_yaml, const Tokenizer& tokenizer);

  const Path& folder() const { return folder_; }
  const RunStorage& storage() const { return storage_; }
  Recorder& records() { return records_; }

  /// Throws Error(storage) if the name of the run directory no longer leads to the folder that was locked: it was
  /// moved, removed or replaced. Local; says nothing on ranks that keep none.
  void require_in_place() const;

  /// Deletes checkpoints that went, beside what the job does; null on ranks that keep no storage.
  TrashCollector* trash() { return trash_ ? &*trash_ : nullptr; }

  /// Ends the sinks, draws the losses of records.jsonl as loss.svg, and deletes what trash is left for half a minute;
  /// what of that fails is a warning. Local.
  void close();

 private:
  /// Which folder it is, whatever its name. Of this machine: others may number a shared folder otherwise.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    bool operator==(const Identity&) const = default;
  };
  /// Nothing if the name leads nowhere.
  static std::optional<Identity> identity_of(const Path& folder);
  void clear_away();
  void close_records();

  Path folder_;
  RunStorage storage_;
  bool owns_records_;
  Log& log_;
  std::optional<FileLock> lock_;
  std::optional<Identity> identity_;  // of the folder, on keepers of storage
  Recorder records_;
  std::optional<TrashCollector> trash_;
};

}  // namespace lockstep
