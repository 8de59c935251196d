// Recognises checkpoint folders of other trainers by their file names, to tell the user how to import the weights.
#pragma once

#include "base/files.hpp"

namespace lockstep {

/// Throws Error(input) if the folder, or a folder checkpoint-N in it, has files of a PyTorch checkpoint and no manifest
/// of ours. The error names the files and says how to import the weights. Local.
void refuse_other_trainers(const Path& folder);

}  // namespace lockstep
