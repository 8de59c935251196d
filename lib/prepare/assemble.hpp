// The second half of preparation: tokenized documents become the two token streams of a dataset, cut into shards. Ranks
// hold consecutive parts of the corpus. Each rank sums the counts of the ranks before it; the sum tells where its
// documents go in the streams. It writes them there; several ranks may write one shard. The bytes do not depend on the
// number of ranks or threads. The first half: prepare/tokenize.hpp.
#pragma once

#include "comm/session.hpp"
#include "config/values.hpp"
#include "prepare/tokenize.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

struct AssembleSettings {
  Path folder;  // of the dataset; the folders of its splits are made here
  // not set: hash:0.01, or tail:0.01 if hash leaves a split empty
  std::optional<ValidationSplit> validation;
  std::optional<std::int32_t> end_of_text;  // joins documents that have no masks
  TokenMasks masks = TokenMasks::absent;    // documents with masks follow each other without a joining token
  std::int64_t shard_tokens = 0;
  int token_bytes = 2;
  // number of shards of the training split, instead of shard_tokens; not set: shard_tokens decides
  std::optional<std::int64_t> shards = {};
};

struct AssembledSplits {
  ValidationSplit by;             // the split that was applied
  std::int64_t shard_tokens = 0;  // the length that was applied
  SplitEntry train;
  SplitEntry validation;
};

/// Writes the shards of this rank and returns the entries of all of them. Collective over the session's world. Ends
/// with Error(verdict) on a stop request. Throws Error(input) if a requested split would be empty, or if there are
/// several documents and no token to join them; Error(storage).
AssembledSplits assemble(Session& session, const TokenizedCorpus& corpus, const AssembleSettings& settings);

}  // namespace lockstep
