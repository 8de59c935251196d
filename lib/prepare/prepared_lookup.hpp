// Finds out whether a folder holds the dataset that a preparation would make, so that it can be reused. The key:
// prepare/preparation_key.hpp.
#pragma once

#include "base/hash.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"
#include "readers/input_files.hpp"
#include "tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

struct PreparedLookup {
  // whether the folder holds the wanted dataset with all its files
  bool is_same = false;
  // of the input, by all ranks; files that are unchanged by their metadata are not read
  std::uint64_t bytes_read = 0;
};

/// Compares keys (prepare/preparation_key.hpp) and the sizes of shards. Reads input files only if everything but their
/// content matches, and only files that are not known by their stamps; then remembers them. Collective over the
/// session's world. Throws as the tokenizer does, Error(storage).
PreparedLookup look_for_prepared(Session& session, const Path& folder, const PrepareDataOptions& options,
                                 const std::vector<InputFile>& files);

/// Returns whether the folder holds a dataset with this key and all its files. Local. Throws Error(storage).
bool holds_prepared(const Path& folder, const Hash128& key);

/// Returns the tokenizer that the options name, or null if it is made from the text. Local. Throws as make_tokenizer
/// does.
std::unique_ptr<Tokenizer> tokenizer_of(const PrepareDataOptions& options);

}  // namespace lockstep
