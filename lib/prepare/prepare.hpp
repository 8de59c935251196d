// The body of prepare-data: text becomes a dataset of token shards, with bytes that do not depend on the numbers of
// threads and ranks. Its two halves: prepare/tokenize.hpp and prepare/assemble.hpp. The format of the output:
// store/token_shards.hpp. Input that is tokens already: prepare/prepare_tokens.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"

#include <optional>

namespace lockstep {

/// Prepares config.output and prints a summary on rank 0. Afterwards either the whole dataset exists, or nothing of it.
/// With config.verify it calls verify_dataset instead. Collective over the session's world. Throws Error(input) naming
/// file and line for text that cannot be used, Error(usage), Error(storage), Error(verdict) after a stop request.
int prepare_data(const PrepareConfig& config, Session& session, Output& output);

/// WithoutPrepared says how text is handled that has not been prepared: prepare it, refuse it, or return nothing to a
/// caller that only plans.
enum class WithoutPrepared { prepare, refuse, tell };

/// Returns the dataset of `text` in the folder `cache`, found by its key or made here as prepare_data makes it; nothing
/// for WithoutPrepared::tell if there is none. `text` has the input and the options, without an output. Content sums of
/// input files are remembered in the cache. Files with unknown sums are read for them first, unless the caller only
/// plans. Rank 0 logs which dataset is used. Collective over the session's world. Throws as prepare_data does; for
/// WithoutPrepared::refuse Error(input) with the command that makes the dataset.
std::optional<Path> prepare_in_cache(const PrepareConfig& text, const Path& cache, WithoutPrepared without,
                                     Session& session, Output& output);

}  // namespace lockstep
