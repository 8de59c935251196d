// Which checkpoint a job goes on from: chosen by rank 0, agreed by all.
#pragma once

#include "comm/communicator.hpp"
#include "store/run_directory.hpp"

#include <string>

namespace lockstep {

/// `which`: "latest" (the newest sound one; nothing if the run has none), "best", a step, or the folder of a checkpoint. Sound means:
/// manifest and index are valid and all files have their sizes. Damaged ones that were passed over are in `rejected`.
/// Collective over `ranks`; the same on all. Throws Error(input) if a named checkpoint is absent or damaged, or if the run has checkpoints
/// but none is sound: a job never starts anew over them.
Found find_resume(Communicator& ranks, const Path& run, const std::string& which, const std::string& metric = "validation_loss");

}  // namespace lockstep
