// The body of prepare-data: text to a dataset of token shards, on any number of threads and ranks, always with the same
// bytes. Its halves: data/tokenize.hpp and data/assemble.hpp. What comes out: store/token_shards.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"

#include <optional>

namespace lockstep {

/// Prepares config.output and prints a summary on rank 0. Either the whole dataset is there afterwards, or nothing of
/// it. Collective over the session's world. Throws Error(input) naming file and line for text that cannot be used,
/// Error(usage), Error(storage), Error(verdict) after a request to stop. With config.verify: verify_dataset.
int prepare_data(const PrepareConfig& config, Session& session, Output& output);

/// WithoutPrepared says what becomes of text that has not been prepared: it is, or that is refused, or told to the
/// caller, who plans.
enum class WithoutPrepared { prepare, refuse, tell };

/// The dataset in the folder `cache` that is made of text, by its key: the one that is there, or the one that is made
/// here, as prepare_data makes it; nothing where the caller is told that there is none. `text`: what to prepare and
/// how, without output. What input files hold is remembered in the cache; where it is not known they are read for it
/// first, unless the caller only plans. Rank 0 logs which dataset it is. Collective over the session's world. Throws
/// what prepare_data throws; Error(input), with the command that makes the dataset, where it is refused.
std::optional<Path> prepare_in_cache(const PrepareConfig& text, const Path& cache, WithoutPrepared without,
                                     Session& session, Output& output);

}  // namespace lockstep
