// Checks a dataset on disk against its description. Body of prepare-data --verify. Checks during training:
// data/shard_verifier.hpp.
#pragma once

#include "app/output.hpp"
#include "base/files.hpp"
#include "comm/session.hpp"

namespace lockstep {

/// Prints the problems of the dataset, or that there are none. Returns the exit code, done or verdict. Collective over
/// the session's world. Throws Error(input) if the folder holds no dataset or DATASET.json itself is damaged,
/// Error(storage) for files that cannot be read.
int verify_dataset(const Path& folder, Session& session, Output& output);

}  // namespace lockstep
