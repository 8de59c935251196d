// Resume chooses a checkpoint by the common view of all ranks, and all ranks load it. Meaning of the verdicts:
// store/verdict.hpp.
#pragma once

#include "checkpoint/load_checkpoint.hpp"
#include "comm/communicator.hpp"
#include "store/component.hpp"
#include "store/retention.hpp"
#include "store/run_directory.hpp"
#include "store/run_storage.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The checkpoint that the user asks for.
struct ResumeTarget {
  enum class Kind {
    newest,  // the newest sound one; none if the run has no checkpoint
    best,    // the one with the best value of a metric
    step,
    start,  // a checkpoint of another run, or its folder; used only if this run has no checkpoint
  } by = Kind::newest;
  std::int64_t step = 0;
  Path start = {};
};

/// Examines a checkpoint before anything is loaded, and throws if the run cannot continue from it. Local.
using Accept = std::function<void(const CheckpointReader&)>;
/// Examines a checkpoint and returns the part to load; not set: all of it, if Accept agrees. Local.
using ChoosePart = std::function<std::optional<CheckpointPart>(const CheckpointReader&)>;

struct ResumeRequest {
  Path run;
  ResumeTarget wanted = {};
  BestBy best_by = {};                  // for ResumeTarget::Kind::best
  double patience_s = 60;               // how long an unreadable or incomplete checkpoint is retried, s
  int threads = 1;                      // of each rank that read
  RunStorage storage = {};              // holds the run and ResumeTarget::start
  std::optional<LocalTier> local = {};  // of the run; its checkpoints count as those of the run
  Accept accept = {};                   // default: none
  ChoosePart part = {};                 // called before `accept`, except as the next line says; default: none
  bool part_of_newest = false;          // also if the newest of the run is taken, which a run resumes from completely
  std::function<void()> refresh = {};   // restores the initial state after an interrupted load. Local
  std::function<void(const std::string&)> tell = {};  // gets the reason when a wait begins; default: none. Local
};

struct Resumed {
  std::optional<CheckpointEntry> checkpoint;  // not set: the run has none, and no component was touched
  std::vector<SkippedCheckpoint> damaged;     // checkpoints that were skipped before it
  LoadReport loaded;
  bool in_part = false;  // only the part that ResumeRequest::part chose was loaded
};

/// Finds the checkpoint and loads it. For one step, the checkpoint of the local tier is preferred if it is of the same
/// save as that of the run, and ignored if it is of another. A damaged checkpoint is skipped, also if its damage shows
/// only while it is read; the state is then refreshed, and the next candidate is loaded (the next older one or, for
/// `best`, the next best). Returns the same value on all ranks. Collective over `ranks`. Throws Error(input) if the
/// requested checkpoint is absent or damaged, or if the run has checkpoints but none is sound: a job never starts from
/// scratch over them. Throws Error(storage), with advice, if a candidate is still unreadable when the patience is over;
/// Error(usage) if it is foreign; and as `accept` and load do.
Resumed resume(Communicator& ranks, const World& world, const std::vector<Component>& components,
               const ResumeRequest& request);

}  // namespace lockstep
