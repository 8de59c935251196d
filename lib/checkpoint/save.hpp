// Saving: all ranks write their share of the state into one staged folder, compare replicated state, and commit the
// checkpoint together or not at all. Components declare the state (store/component.hpp). Loading:
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
  std::vector<Metric> metrics = {};  // only those of rank 0 count
  /// "config.yaml", "config.json", …; only those of rank 0 count.
  std::vector<std::pair<std::string, std::string>> documents = {};
  Retention retention = {};
  /// Deletes trash in the background, on the keepers of storage; null: the save deletes it.
  TrashCollector* trash = nullptr;
  RollingShare share = {};  // the share that Validation::rolling compares
  /// Reads the parts back and compares them before older checkpoints are removed.
  bool read_back = false;
  double patience_s = 0;                   // how long a rank waits to see files and folders of other ranks
  std::optional<int> ranks_per_file = {};  // neighbouring ranks that write to one part; default: those of a node
  RunStorage storage = {};                 // holds the run
  /// Called as a rank enters save_plan … save_commit; may throw (injection). Local.
  std::function<void(Phase)> enter = {};
};

struct SaveReport {
  Path path;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;           // of all parts
  std::uint64_t compared_bytes = 0;  // bytes that all ranks read to compare replicas
  double seconds = 0;
  Hash128 state_digest;
  std::vector<std::int64_t> pruned;  // steps whose checkpoints were removed
  /// A failure of the clean-up after the commit, else empty; the new checkpoint is sound in any case.
  std::string problem;
};

/// Saves the state of a job, now or in the background. It keeps the results of a save for the next one: the holders,
/// the plan, and the image of the part files without their pieces. They are made again if the state, its layouts or the
/// files have changed.
///
/// A background save copies the state and proceeds while training continues. Each rank does its share of a stage
/// (writing, sealing, committing) on a thread of its own; at the end of a step all ranks agree whether the next stage
/// begins. A rank writes without waiting for others, except in the first save of a plan.
class Saver {
 public:
  /// `ranks` are the ranks that save. Local.
  explicit Saver(Communicator& ranks);
  ~Saver();

  /// Commits a checkpoint of the components, which all ranks name in the same order. Returns the same report on all
  /// ranks. Collective; no other save may be running. On any failure all ranks throw one AgreedError that names the
  /// failing rank, the staged files are removed, and the current checkpoint stays current: Error(storage) if files
  /// could not be written, Error(verdict), naming tensor and ranks, if ranks of a cell hold different bytes or one
  /// lacks data that others hold.
  SaveReport save(const std::vector<Component>& components, const SaveRequest& request);
  /// Begins a background save. It returns once the state is copied into at most `memory` bytes of each rank (0: no
  /// limit). If the copy does not fit, it is filled several times, and the call returns when only the last filling is
  /// left to write. Collective. Throws as save does, and Error(resources) if there is no memory.
  void begin(const std::vector<Component>& components, const SaveRequest& request, std::uint64_t memory);
  /// Makes the plan and takes the memory for a later save or begin, so that these need not. Collective. Throws as begin
  /// does.
  void make_ready(const std::vector<Component>& components, SaveRequest request, std::uint64_t memory);
  /// Returns whether a save is running; the same on all ranks. Local.
  bool under_way() const { return current_ != nullptr; }
  /// Seconds that the last begin took, and the number of fillings of the copy. Local.
  double stall_seconds() const { return stall_seconds_; }
  int waves() const { return waves_; }
  /// Continues the running save: begins the next stage if all ranks have finished the current one. `to_the_end` waits
  /// until the save is committed. Returns the report once it is. Collective. Throws as save does.
  std::optional<SaveReport> advance(bool to_the_end);

  class Save;  // the running save

 private:
  void prepare(const std::vector<Component>& components, const SaveRequest& request);
  void begin_save(const std::vector<Component>& components, const SaveRequest& request);
  void take_memory(const std::vector<Region>& pieces, std::uint64_t memory);
  template <class Work>
  void or_abandon(const Work& work);
  Communicator& ranks_;
  std::unique_ptr<SavePlan> plan_;  // of the last save that made one
  Snapshot snapshot_;
  std::unique_ptr<Save> current_;
  /// A save met a limit that the file system does not report, such as a quota.
  bool room_is_scarce_ = false;
  double stall_seconds_ = 0;
  int waves_ = 0;
};

}  // namespace lockstep
