// Folders that other trainers write and call checkpoints, known by the names in them, so that who brings one learns how
// its weights come over.
#pragma once

#include "base/files.hpp"

namespace lockstep {

/// Throws Error(input) if the folder, or one of its folders checkpoint-N, has the files of a checkpoint of PyTorch's
/// kind and none of ours: says what it is and the way across. Local.
void refuse_other_trainers(const Path& folder);

}  // namespace lockstep
