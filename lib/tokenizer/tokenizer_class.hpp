// Tokenizer classes of transformers, as far as they decide ids: how they build byte-level tokenizers from vocab.json
// and merges.txt, and their default special tokens. tokenizer_config.json names the class.
#pragma once

#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "tokenizer/piece_pattern.hpp"

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A special token and its key, such as "eos_token".
struct NamedToken {
  std::string_view key;
  std::string_view content;
};

/// A class that reads vocab.json and merges.txt.
struct ByteLevelClass {
  std::string_view name;  // without "Fast"
  PieceRule rule;
  bool composes;  // normalizes to NFC
  std::span<const NamedToken> defaults;
};

/// The class with this name; null if it is not known to read vocab.json and merges.txt.
const ByteLevelClass* byte_level_class(std::string_view name);

/// The class by which transformers reads a folder: the tokenizer_class of tokenizer_config.json (`config`) or
/// config.json, otherwise the class of config.json's model_type. Without "Fast"; empty if none is named. Throws
/// Error(input) for a malformed config.json.
std::string tokenizer_class_of(const Json& config, const Path& folder);

/// The default named tokens of LlamaTokenizer.
std::span<const NamedToken> llama_tokens();

/// Throws Error(usage) if the class gives the pieces of a sentencepiece model other ids than the model does.
void require_own_numbers(const std::string& tokenizer_class, const std::string& origin);

}  // namespace lockstep
