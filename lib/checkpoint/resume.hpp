// A resume chooses the checkpoint that a job goes on from by what all ranks see, and all of them load it.
// store/verdict.hpp says what the verdicts mean.
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

/// Wanted says which checkpoint is meant.
struct Wanted {
  enum class By {
    newest,  // the newest sound one; nothing if the run has none
    best,    // the one with the best value of a metric
    step,
    start,  // a checkpoint of another run, or such a run: it counts only while this run has none of its own
  } by = By::newest;
  std::int64_t step = 0;
  Path start = {};
};

/// Looks at a checkpoint before anything is loaded from it, and throws if the run cannot go on from it. Local.
using Accept = std::function<void(const CheckpointReader&)>;
/// Does the same, and says which part of it is to be loaded; nothing: all of it, if it is accepted. Local.
using ChoosePart = std::function<std::optional<CheckpointPart>(const CheckpointReader&)>;

struct ResumeRequest {
  Path run;
  Wanted wanted = {};
  BestBy best_by = {};                  // of Wanted::By::best
  double patience_s = 60;               // how long what is unreadable, or lacks files, is looked at anew
  int threads = 1;                      // of each rank that read
  RunStorage storage = {};              // on which the run and Wanted::start lie
  std::optional<LocalTier> local = {};  // of the run: its checkpoints count as those of the run
  Accept accept = {};                   // may be empty
  ChoosePart part = {};                 // before accept, unless the newest of the run is taken; may be empty
  std::function<void()> refresh = {};   // brings the state back to what it was before a load that broke off. Local
  std::function<void(const std::string&)> tell = {};  // why there is a wait, when one begins; may be empty. Local
};

struct Resumed {
  std::optional<CheckpointEntry> checkpoint;  // nothing: the run has none, and no component was touched
  std::vector<PassedOver> damaged;            // those that would have been taken before it
  LoadReport loaded;
  bool in_part = false;  // what ResumeRequest::part chose was loaded
};

/// Finds the checkpoint and loads it. Of one step that of the local tier is taken before that of the run, if it is the
/// same save, and not at all if it is another. With Wanted::By::newest a damaged one is passed over, also if its damage
/// only shows while it is read; the state is refreshed before another is loaded. Collective over `ranks`; the same on
/// all. Throws Error(input) if a named checkpoint is absent or damaged, or if the run has checkpoints but none is
/// sound: a job never starts anew over them; Error(storage) with what to do if one that would be taken is unreadable
/// when the patience is over; Error(usage) if it is foreign; and what `accept` and load throw.
Resumed resume(Communicator& ranks, const World& world, const std::vector<Component>& components,
               const ResumeRequest& request);

}  // namespace lockstep
