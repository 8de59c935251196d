// Which checkpoint a job goes on from: chosen by rank 0, agreed by all.
#pragma once

#include "checkpoint/load_checkpoint.hpp"
#include "comm/communicator.hpp"
#include "store/component.hpp"
#include "store/run_directory.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// `which`: "latest" (the newest sound one; nothing if the run has none), "best", a step, or the folder of a
/// checkpoint. Sound means: manifest and index are valid and all files have their sizes. Damaged ones that were passed
/// over are in `rejected`. Collective over `ranks`; the same on all. Throws Error(input) if a named checkpoint is
/// absent or damaged, or if the run has checkpoints but none is sound: a job never starts anew over them.
Found find_resume(Communicator& ranks, const Path& run, const std::string& which,
                  const std::string& metric = "validation_loss");

struct Resumed {
  std::optional<CheckpointEntry> checkpoint;  // nothing: the run has none, and no component was touched
  std::vector<std::string> rejected;          // newer ones that are damaged, each with the reason
  LoadReport loaded;
};

/// Looks at a checkpoint before anything is loaded from it, and throws if the run cannot go on from it. Local.
using Accept = std::function<void(const CheckpointReader&)>;

/// find_resume and load in one. With "latest", a checkpoint whose damage only shows while it is read (an Error(input))
/// is passed over as well. `accept` may be empty. Collective over `ranks`. Throws as the two do, and what `accept`
/// throws.
Resumed resume(Communicator& ranks, const World& world, const Path& run, const std::string& which,
               const std::vector<Component>& components, const Accept& accept = {},
               const std::string& metric = "validation_loss");

}  // namespace lockstep
