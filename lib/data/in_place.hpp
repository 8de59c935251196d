// Token files of other programs as the splits of a dataset: nothing is copied but where documents start. Which files
// there are: exchange/token_files.hpp; how they are read: store/token_shards.hpp.
#pragma once

#include "comm/session.hpp"
#include "config/values.hpp"
#include "exchange/token_files.hpp"
#include "store/token_shards.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What tells the tokens of one tokenizer from others.
struct TokenKind {
  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> end_of_text;
};

/// Which tokens are the validation split. If neither is there: files with names such as val.bin, or, without any,
/// tail:0.01.
struct TokenValidation {
  std::optional<ValidationSplit> split;
  std::optional<std::string> files;  // a pattern of names
};

/// Tokens [begin, end) of a file.
struct TokenRange {
  std::size_t file = 0;  // its number
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct DividedFiles {
  std::vector<TokenFile> files;                   // their tokens and types known
  std::array<std::vector<TokenRange>, 2> splits;  // train, validation
  std::string by;                                 // how they were told apart, as data.validation says it
};

/// Checks whole indices, unpacks compressed files to `scratch`, and says what goes into which split. Collective over
/// the session's world. Ends with Error(verdict) on a request to stop. Throws Error(input) naming the file that is not
/// sound, or if a split that was asked for would be empty; Error(usage) for a division by hash.
DividedFiles divide_token_files(Session& session, std::vector<TokenFile> files, const TokenValidation& validation,
                                const TokenKind& kind, const Path& scratch);

struct InPlaceSplits {
  SplitEntry train;
  SplitEntry validation;
};

/// Reads every token once: entries of all shards, whose files have absolute paths, and in `folder`/documents where
/// documents start. Collective over the session's world. Ends with Error(verdict) on a request to stop. Throws
/// Error(input) naming the place of an id outside the vocabulary, Error(storage).
InPlaceSplits describe_in_place(Session& session, const DividedFiles& divided, const TokenKind& kind,
                                std::int64_t shard_tokens, const Path& folder);

}  // namespace lockstep
