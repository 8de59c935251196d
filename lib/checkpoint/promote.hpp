// Promotion copies a checkpoint from the local tier (LocalTier), which lies on the nodes' own storage, to the run
// folder, which all ranks see. Its manifest is written last; from then on it is a checkpoint there. Each file is copied
// by one rank of a node that has it, on a thread that never communicates, while training continues. The ranks agree on
// progress after a step, as in a background save (checkpoint/save.hpp).
#pragma once

#include "base/files.hpp"
#include "comm/communicator.hpp"
#include "store/retention.hpp"
#include "store/run_storage.hpp"
#include "store/trash.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct PromotionRequest {
  Path run;         // rank 0 manages this folder
  LocalTier local;  // holds the checkpoint
  std::int64_t step = 0;
  std::vector<std::int64_t> waiting = {};  // steps that are promoted later, so the local tier keeps them
  Retention retention = {};                // in the run folder
  TrashCollector* trash = nullptr;         // of the run, on rank 0; see SaveRequest::trash
  TrashCollector* local_trash = nullptr;   // of the local tier, on its keepers
  bool read_back = false;                  // reads the copy back and compares it before the manifest is written
  double patience_s = 0;                   // how long a rank waits to see files and folders of other ranks
  std::function<void()> enter = {};        // called as a rank begins; may throw (injection). Local
};

struct PromotionReport {
  Path path;  // in the run folder
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::vector<std::int64_t> pruned;  // steps whose checkpoints were removed from the run folder
  std::string problem;               // a failure of the clean-up after the commit; the checkpoint is sound in any case
};

class Promoter {
 public:
  /// `ranks` are the ranks that saved the checkpoint, or that resumed from it. Local.
  explicit Promoter(Communicator& ranks);
  /// Stops a running promotion as a kill does: its copies stay as leftovers.
  ~Promoter();

  /// Begins to promote a checkpoint. No promotion and no save into the run folder may be running. Collective. Throws
  /// AgreedError(storage) if the nodes do not have all of its files, and any exception of `enter`.
  void begin(const PromotionRequest& request);
  /// Returns whether a promotion is running; the same on all ranks. Local.
  bool under_way() const { return current_ != nullptr; }
  /// Returns the step of the running promotion. Local.
  std::int64_t step() const;
  /// Begins the next stage if all ranks have finished the current one. Returns the report once the checkpoint is
  /// committed; the local tier then keeps no checkpoint up to its step except its newest one and those in `waiting`.
  /// Collective. On any failure all ranks throw one AgreedError, the copies are removed, and the local tier is
  /// unchanged.
  std::optional<PromotionReport> advance();
  /// Stops the running promotion: its copies are removed, and the local tier is unchanged. Returns false and does
  /// nothing if all files are copied, because the commit is about to follow. Collective.
  bool break_off();
  /// Returns the bytes that this rank has copied so far. Local.
  std::uint64_t copied_bytes() const;

 private:
  class Promotion;
  Communicator& ranks_;
  std::unique_ptr<Promotion> current_;
};

/// Returns the steps, ascending, whose checkpoints are complete in the local tier and absent from the run folder. It
/// leaves out checkpoints of a branch that the run has abandoned: the tier's checkpoints belong to the run only up to
/// the newest one that is newer than all of the run, or that the run has from the same save. Returns the same value on
/// all ranks. Collective over `ranks`. Throws Error(storage).
std::vector<std::int64_t> unpromoted_steps(Communicator& ranks, const LocalTier& local, const Path& run);

}  // namespace lockstep
