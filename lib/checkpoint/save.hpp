// Saving: all ranks write their share of the state into one staged folder, compare what should be equal, and commit it
// together, or none of it. What is saved is declared in store/component.hpp; getting it back:
// checkpoint/load_checkpoint.hpp, checkpoint/resume.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "checkpoint/snapshot.hpp"
#include "comm/communicator.hpp"
#include "comm/phase.hpp"
#include "store/component.hpp"
#include "store/manifest.hpp"
#include "store/retention.hpp"
#include "store/run_directory.hpp"
#include "store/run_storage.hpp"
#include "store/trash.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct SavePlan;

struct SaveRequest {
  Path run;  // the checkpoint becomes RUN/checkpoints/step-N
  std::int64_t step = 0;
  World world;                       // of the ranks of the communicator
  std::vector<Metric> metrics = {};  // those of rank 0 count
  std::vector<std::pair<std::string, std::string>> documents =
      {};  // "config.yaml", "config.json", …: those of rank 0 count
  Retention retention = {};
  TrashCollector* trash = nullptr;  // on keepers of storage: deletes behind the caller what goes; without one save does
  RollingShare share = {};          // of what Validation::rolling compares
  bool read_back = false;  // parts are read anew and compared with what was written before older checkpoints go
  double patience_s = 0;   // how long a rank looks anew for what others have just made
  std::optional<int> ranks_per_file = {};  // neighbouring ranks that share one part; nothing: those of a node
  RunStorage storage = {};                 // on which the run lies
  std::function<void(Phase)> enter =
      {};  // called as a rank enters save_plan … save_commit; may throw (injection). Local
};

struct SaveReport {
  Path path;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;           // of all parts
  std::uint64_t compared_bytes = 0;  // that ranks read to compare what they hold alike, in all
  double seconds = 0;
  Hash128 state_digest;
  std::vector<std::int64_t> retired;  // steps whose checkpoints went
  std::string problem;  // why advice or older ones are as before; the new checkpoint is sound all the same
};

/// A saver keeps what one save found out for the next: who holds what, the plan, and what the part files look like
/// before their bytes are there. All of it is made anew where the state, its layouts or the files have changed.
///
/// A save in the background copies the state and is then carried on beside training: each rank does its share of a
/// stage (writing, sealing, committing) on a thread of its own, and at the end of a step all of them agree whether the
/// next stage may begin. A rank writes without waiting for others, except by the first save of a plan.
class Saver {
 public:
  /// Local. `ranks` are those that it saves with.
  explicit Saver(Communicator& ranks);
  ~Saver();

  /// Commits a checkpoint of the components, each of which every rank names in the same order, and returns the same
  /// report on all ranks. Collective; no other save is under way. On any failure all ranks throw one AgreedError naming
  /// the failing rank, what was staged is removed, and the checkpoint that was current stays so: Error(storage) if
  /// files could not be written as they should, Error(verdict) naming tensor and ranks if ranks of a cell hold
  /// different bytes, or one lacks what others hold.
  SaveReport save(const std::vector<Component>& components, const SaveRequest& request);
  /// The same in the background: returns once the state is copied, into at most `memory` bytes of each rank (0: as many
  /// as it takes). Where that is less than it takes, returns when only the last part is still to be written.
  /// Collective. Throws what save throws, and Error(resources) if there is no memory.
  void begin(const std::vector<Component>& components, const SaveRequest& request, std::uint64_t memory);
  /// Plans what save and begin will be asked for, so that they need not, and takes the memory of begin. Collective.
  /// Throws what begin throws.
  void make_ready(const std::vector<Component>& components, SaveRequest request, std::uint64_t memory);
  /// Whether a save is under way: the same on all ranks. Local.
  bool under_way() const { return current_ != nullptr; }
  /// How long the state took to be copied, and in how many parts. Local.
  double stall_seconds() const { return stall_seconds_; }
  int waves() const { return waves_; }
  /// Goes on with the save that is under way, as far as all ranks have come; `to_the_end` waits for it. Returns the
  /// report once it is committed. Collective. Throws as save does.
  std::optional<SaveReport> advance(bool to_the_end);

  class Save;  // that is under way

 private:
  void prepare(const std::vector<Component>& components, const SaveRequest& request);
  void begin_save(const std::vector<Component>& components, const SaveRequest& request);
  void take_memory(const std::vector<std::span<const std::byte>>& bytes, std::uint64_t memory);
  template <class Work>
  void or_abandon(const Work& work);
  Communicator& ranks_;
  std::unique_ptr<SavePlan> plan_;  // by the last save that got so far
  Snapshot snapshot_;
  std::unique_ptr<Save> current_;
  bool room_is_scarce_ = false;  // a save found none, whatever the file system counts as free: a quota
  double stall_seconds_ = 0;
  int waves_ = 0;
};

}  // namespace lockstep
