// A dataset written anew: as token files that other programs read, or as shards of our own. How such files are read in
// place: data/in_place.hpp.
#pragma once

#include "comm/session.hpp"
#include "exchange/token_files.hpp"
#include "store/token_shards.hpp"

#include <array>
#include <vector>

namespace lockstep {

/// What was written, of train and validation: files without an index where the format has none.
using WrittenFiles = std::array<std::vector<TokenFile>, 2>;

/// Writes both splits of the dataset in `source` into `folder`: the same tokens, for llm.c behind an end-of-text token,
/// which it has in front of documents. Files hold at most `file_tokens` where the format has several. Names: train and
/// val or validation, as the format's programs look for them. Ranks write parts of files; the bytes do not depend on
/// ranks. Collective over the session's world. Ends with Error(verdict) on a request to stop. Throws Error(usage) for
/// ids or documents that the format cannot hold, Error(input) as TokenStream does, Error(storage).
WrittenFiles write_token_files(Session& session, const Path& source, const DatasetManifest& manifest,
                               TokenFormat format, std::int64_t file_tokens, const Path& folder);

/// Sets the splits of `manifest`, which names the dataset in `source`, to those of shards of our own in `folder`.
/// Otherwise the same.
void write_own_shards(Session& session, const Path& source, DatasetManifest& manifest, std::int64_t shard_tokens,
                      const Path& folder);

}  // namespace lockstep
