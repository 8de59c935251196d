// The classes of transformers that a tokenizer_config.json names, as far as they decide ids: how they build byte-level
// tokenizers of vocab.json and merges.txt, and the special tokens that they have unless the folder names others.
#pragma once

#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "corpus/piece_pattern.hpp"

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A special token under the key that names it, as "eos_token".
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

/// The class by which transformers reads a folder: from tokenizer_config.json (`config`), else from config.json, by its
/// tokenizer_class or model_type. Without "Fast"; empty: none is named. Throws Error(input) for a malformed
/// config.json.
std::string tokenizer_class_of(const Json& config, const Path& folder);

/// The named tokens that LlamaTokenizer has by itself.
std::span<const NamedToken> llama_tokens();

/// Throws Error(usage) where the class does not number the pieces of a sentencepiece model as the model does.
void require_own_numbers(const std::string& tokenizer_class, const std::string& origin);

}  // namespace lockstep
