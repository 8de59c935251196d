// Uses token files of other programs as the splits of a dataset without copying them; only the starts of documents are
// written. Finding such files: exchange/token_files.hpp; reading them: store/token_shards.hpp.
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

/// TokenKind describes the tokenizer of the tokens.
struct TokenKind {
  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> end_of_text;
};

/// TokenValidation selects the tokens of the validation split. If neither field is set, files with names such as
/// val.bin are used; without such files, tail:0.01.
struct TokenValidation {
  std::optional<ValidationSplit> split;
  std::optional<std::string> files;  // a pattern of file names
};

/// Tokens [begin, end) of a file.
struct TokenRange {
  std::size_t file = 0;  // index of the file
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct DividedFiles {
  std::vector<TokenFile> files;                   // with their numbers and types of tokens
  std::array<std::vector<TokenRange>, 2> splits;  // train, validation
  std::string by;                                 // how the splits were chosen: "data.validation tail:0.01"
};

/// Checks the indices of the files completely, unpacks compressed files to `scratch`, and assigns tokens to the splits.
/// Collective over the session's world. Ends with Error(verdict) on a stop request. Throws Error(input) naming a
/// damaged file, or if a requested split would be empty; Error(usage) for a division by hash or by count.
DividedFiles divide_token_files(Session& session, std::vector<TokenFile> files, const TokenValidation& validation,
                                const TokenKind& kind, const Path& scratch);

struct InPlaceSplits {
  SplitEntry train;
  SplitEntry validation;
};

/// Reads every token once. Returns the entries of all shards, whose files have absolute paths, and writes the starts of
/// documents to `folder`/documents. Collective over the session's world. Ends with Error(verdict) on a stop request.
/// Throws Error(input) with the position of an id outside the vocabulary, Error(storage).
InPlaceSplits describe_in_place(Session& session, const DividedFiles& divided, const TokenKind& kind,
                                std::int64_t shard_tokens, const Path& folder);

}  // namespace lockstep
