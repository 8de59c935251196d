// Rewrites a dataset as token files that other programs read, or as our own shards. Using such files in place:
// prepare/in_place.hpp.
#pragma once

#include "comm/session.hpp"
#include "exchange/token_files.hpp"
#include "store/token_shards.hpp"

#include <array>
#include <vector>

namespace lockstep {

/// WrittenFiles are the files of train and validation; without an index if the format has none.
using WrittenFiles = std::array<std::vector<TokenFile>, 2>;

/// Writes both splits of the dataset in `source` into `folder`. The tokens are unchanged; for llm.c an end-of-text
/// token precedes the first document, because its documents begin with one. Formats with several files put at most
/// `file_tokens` tokens into each. Splits are named as programs of the format expect: train, and val or validation.
/// Ranks write parts of files; the bytes do not depend on the number of ranks. Collective over the session's world.
/// Ends with Error(verdict) on a stop request. Throws Error(usage) for ids or documents that the format cannot hold,
/// Error(input) as TokenStream does, Error(storage).
WrittenFiles write_token_files(Session& session, const Path& source, const DatasetManifest& manifest,
                               TokenFormat format, std::int64_t file_tokens, const Path& folder);

/// Writes the dataset in `source`, described by `manifest`, as our own shards of at most `shard_tokens` tokens into
/// `folder`, and updates the splits of `manifest`. Collective over the session's world. Ends with Error(verdict) on a
/// stop request. Throws Error(input) as TokenStream does, Error(storage).
void write_own_shards(Session& session, const Path& source, DatasetManifest& manifest, std::int64_t shard_tokens,
                      const Path& folder);

}  // namespace lockstep
