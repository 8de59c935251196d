// Reads tiktoken's rank files: each line has a token's bytes in base64 and its rank. They contain neither pattern nor
// special tokens; both are known here for the common files.
#pragma once

#include "tokenizer/tokenizer_json.hpp"

#include <string>
#include <string_view>

namespace lockstep {

/// Whether the first line is that of a rank file.
bool is_rank_file(std::string_view text);

/// Reads a byte-level BPE, and makes the equivalent tokenizer.json. Throws Error(input) for a malformed file,
/// Error(usage) if no known tokenizer has this number of ranks.
TokenizerDescription read_rank_file(std::string_view text, const std::string& origin);

}  // namespace lockstep
