// A folder with checkpoints of a run that this job works in: that of the run, or its local tier. A keeper of its
// storage holds the lock and deletes there.
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
  enum class Use { run, local_tier };
  /// Locks the folder and clears away what killed jobs left in it. `log` outlives it. Collective over `world`. Throws
  /// Error(usage) on all ranks if another job holds it, or nodes that should have storage of their own share it.
  RunFolder(Communicator& world, Use use, const Path& path, RunStorage storage, Log& log);

  const Path& path() const { return path_; }
  const RunStorage& storage() const { return storage_; }
  /// Deletes checkpoints that went, beside what the job does; null on ranks that keep no storage.
  TrashCollector* trash() { return trash_ ? &*trash_ : nullptr; }
  /// Throws Error(storage) if the name of the folder no longer leads to the one that was locked: it was moved, removed
  /// or replaced. Local; says nothing on ranks that keep none.
  void require_in_place() const;
  /// Deletes what trash is left, for half a minute; what fails is a warning. Local.
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

  Path path_;
  RunStorage storage_;
  Log& log_;
  std::optional<FileLock> lock_;
  std::optional<Identity> identity_;  // on keepers of storage
  std::optional<TrashCollector> trash_;
};

}  // namespace lockstep
