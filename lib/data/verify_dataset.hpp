// Whether a dataset on disk is what its description says: body of prepare-data --verify. What training checks while it
// runs: data/shard_verifier.hpp.
#pragma once

#include "app/output.hpp"
#include "base/files.hpp"
#include "comm/session.hpp"

namespace lockstep {

/// Prints what is wrong with the dataset, or that nothing is; returns the exit code, done or verdict. Collective over
/// the session's world. Throws Error(input) if the folder holds no dataset or DATASET.json itself is damaged,
/// Error(storage) for what cannot be read.
int verify_dataset(const Path& folder, Session& session, Output& output);

}  // namespace lockstep
