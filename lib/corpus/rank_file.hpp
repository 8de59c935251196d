// tiktoken's rank files: a token's bytes in base64 and its rank a line. They state neither pattern nor special tokens,
// which are known here for the files that people have.
#pragma once

#include "corpus/tokenizer_json.hpp"

#include <string>
#include <string_view>

namespace lockstep {

/// Whether the first line is one of a rank file.
bool is_rank_file(std::string_view text);

/// Byte-level BPE, with the tokenizer.json that says the same. Throws Error(input) for a malformed file, Error(usage)
/// for a number of ranks that no known tokenizer has.
TokenizerDescription read_rank_file(std::string_view text, const std::string& origin);

}  // namespace lockstep
