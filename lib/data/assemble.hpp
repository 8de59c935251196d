// The second half of preparation: tokenized documents become the two streams of a dataset, cut into shards. Ranks have
// consecutive parts of the corpus, so sums over the ranks before tell each of them where in the streams its documents
// go; it writes them there, in shards that several ranks may write. The bytes do not depend on ranks or threads.
#pragma once

#include "comm/session.hpp"
#include "config/values.hpp"
#include "data/tokenize.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

struct AssembleSettings {
  Path folder;                                // of the dataset; its splits' folders are made here
  std::optional<ValidationSplit> validation;  // absent: hash:0.01, or tail:0.01 where that leaves a split empty
  std::optional<std::int32_t> end_of_text;    // joins documents, unless
  TokenMasks masks = TokenMasks::absent;      // they have masks: then they stand back to back
  std::int64_t shard_tokens = 0;
  int token_bytes = 2;
  std::optional<std::int64_t> shards = {};  // of the training split, instead of shard_tokens
};

struct AssembledSplits {
  ValidationSplit by;             // as it was made
  std::int64_t shard_tokens = 0;  // likewise
  SplitEntry train;
  SplitEntry validation;
};

/// Collective over the session's world. Ends with Error(verdict) on a request to stop. Throws Error(input) if a split
/// that was asked for would be empty, or if there are several documents and no token to join them; Error(storage).
AssembledSplits assemble(Session& session, const TokenizedCorpus& corpus, const AssembleSettings& settings);

}  // namespace lockstep
