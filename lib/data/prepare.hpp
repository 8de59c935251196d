// The body of prepare-data: text to a dataset of token shards, on any number of threads and ranks, always with the same
// bytes. Its halves: data/tokenize.hpp and data/assemble.hpp. What comes out: store/token_shards.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"

namespace lockstep {

/// Prepares config.output and prints a summary on rank 0. Either the whole dataset is there afterwards, or nothing of
/// it. Collective over the session's world. Throws Error(input) naming file and line for text that cannot be used,
/// Error(usage), Error(storage), Error(verdict) after a request to stop. With config.verify: verify_dataset.
int prepare_data(const PrepareConfig& config, Session& session, Output& output);

}  // namespace lockstep
