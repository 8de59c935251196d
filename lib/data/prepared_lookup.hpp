// Whether a folder holds the dataset that a preparation would make, so that it need not be made again.
#pragma once

#include "base/hash.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"
#include "corpus/input_files.hpp"
#include "corpus/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

struct PreparedLookup {
  bool is_same = false;          // whether it is the dataset that would be made, and all its files are there
  std::uint64_t bytes_read = 0;  // of the input, by all ranks: where the file system does not tell that it is unchanged
};

/// Compares keys (data/preparation_key.hpp), and the sizes of shards. Reads the input only where everything but its
/// content is as it was, and a file is not known by its stamp; it is remembered then. Collective over the session's
/// world. Throws what the tokenizer throws, Error(storage).
PreparedLookup look_for_prepared(Session& session, const Path& folder, const PrepareDataOptions& options,
                                 const std::vector<InputFile>& files);

/// Whether the folder holds a dataset with this key, and all its files are there. Local. Throws Error(storage).
bool holds_prepared(const Path& folder, const Hash128& key);

/// The tokenizer that the options name; null where it is made of the text. Local. Throws what make_tokenizer throws.
std::unique_ptr<Tokenizer> tokenizer_of(const PrepareDataOptions& options);

}  // namespace lockstep
