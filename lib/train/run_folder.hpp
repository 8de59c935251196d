// A folder with checkpoints of a run that this job writes: the run folder or its local tier. A rank that keeps its
// storage holds the lock and deletes files there.
#pragma once

#include "comm/communicator.hpp"
#include "report/log.hpp"
#include "store/run_directory.hpp"
#include "store/run_storage.hpp"
#include "store/trash.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

class RunFolder {
 public:
  enum class Purpose { run, local_tier };
  /// Locks the folder and removes leftovers of killed jobs. `log` must outlive it. Collective over `world`. Throws
  /// Error(usage) on all ranks if another job holds the lock, or if nodes share storage that should be node-local.
  RunFolder(Communicator& world, Purpose use, const Path& path, RunStorage storage, Log& log);

  const Path& path() const { return path_; }
  const RunStorage& storage() const { return storage_; }
  /// Returns the collector that deletes removed checkpoints in the background; null on ranks that keep no storage.
  TrashCollector* trash() { return trash_ ? &*trash_ : nullptr; }
  /// Throws Error(storage) if the name of the folder no longer leads to the locked folder, because it was moved,
  /// removed or replaced. Local; does nothing on ranks that keep no storage.
  void require_in_place() const;
  /// Deletes the remaining trash, for at most half a minute; a failure is a warning. Local.
  void close();

 private:
  /// Identifies a folder independently of its name, on this machine: other machines may number a shared folder
  /// differently.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    bool operator==(const Identity&) const = default;
  };
  /// Returns nothing if the name leads nowhere.
  static std::optional<Identity> identity_of(const Path& folder);
  void clear_away();

  Path path_;
  RunStorage storage_;
  Log& log_;
  std::optional<FileLock> lock_;
  std::optional<Identity> identity_;  // on keepers of storage
  std::optional<TrashCollector> trash_;
};

}  // namespace lockstep
