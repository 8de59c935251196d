// A byte-level BPE as its files describe it, read and checked: whatever in them changes ids and is not supported is
// refused by name.
#pragma once

#include "base/files.hpp"
#include "corpus/added_tokens.hpp"
#include "corpus/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// How text falls into pieces before merging.
enum class PieceRule { gpt2_pattern, whole_text };
/// Whether a text that does not begin with a space gets one.
enum class PrefixSpace { never, add };

struct BpeDescription {
  std::vector<std::pair<std::string, std::int32_t>> vocabulary;  // token in the byte-level alphabet, id
  std::vector<std::pair<std::string, std::string>> merges;       // in order of rank
  std::vector<AddedToken> added_tokens;
  PieceRule pieces = PieceRule::gpt2_pattern;
  PrefixSpace prefix_space = PrefixSpace::never;
  bool whole_pieces_first = false;                 // "ignore_merges": a piece that is a token is that token
  std::string end_name;                            // of tokenizer_config.json, if it says one
  SpecialTokens reading = SpecialTokens::special;  // as tokenizer_config.json says
  std::vector<TokenizerFile> files;                // as read; without vocab.json and merges.txt
};

/// From a folder or a file like tokenizer.json; as bpe_tokenizer.
BpeDescription read_bpe(const Path& path);

/// The tokenizer.json of what was read from vocab.json and merges.txt.
std::string bpe_tokenizer_json(const BpeDescription& bpe);

}  // namespace lockstep
