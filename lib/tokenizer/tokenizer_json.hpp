// Reads and checks a tokenizer.json. A part that changes ids and is not supported is refused by name. Equivalent files
// (vocab.json with merges.txt, ranks of tiktoken) are read into the same description.
#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/declared_tokens.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/token_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

enum class ModelKind { bpe, word_piece, word_level, unigram };

/// The model, which turns a piece into tokens (tokenizer/token_model.hpp).
struct ModelDescription {
  ModelKind kind = ModelKind::bpe;
  std::vector<std::pair<std::string, std::int32_t>> vocabulary;  // token as the file writes it, id
  std::optional<std::string> unknown;                            // stands for text that has no token
  // BPE
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
  bool whole_pieces_first = false;                          // "ignore_merges": a piece that is a token is that token
  bool byte_fallback = false;  // text without a token becomes tokens of its bytes (also unigram)
  bool fuse_unknown = false;   // adjacent unknown characters become one token
  std::string prefix;          // of characters within a piece (also word piece)
  std::string suffix;          // of the last character
  // Word piece
  std::size_t longest_word = 100;  // characters; a longer word is unknown
  // Unigram
  std::vector<double> scores;  // in the order of the vocabulary
  std::optional<std::int32_t> unknown_id;
};

/// The parts of a tokenizer.json that change and cut text.
struct TokenizerParts {
  Json normalizer;  // null if there is none
  Json pre_tokenizer;
};

struct TokenizerDescription {
  ModelDescription model;
  std::vector<AddedToken> added_tokens;
  bool adds_declared = false;                     // some of them, or their flags, are not in the tokenizer's own file
  std::optional<std::string> padding_token = {};  // of "padding"
  TokenizerParts parts = {};                      // of a tokenizer.json that was read
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;
  std::string end_name;                            // of tokenizer_config.json, if it names one
  SpecialTokens reading = SpecialTokens::special;  // as tokenizer_config.json says
  std::vector<std::string> notes;                  // Tokenizer::notes
  std::vector<TokenizerFile> files;                // as read, or made: tokenizer.json and tokenizer_config.json
};

/// Reads a folder or a file, with the added tokens that files next to it declare. Throws as file_tokenizer.
TokenizerDescription read_tokenizer(const Path& path);

/// Reads the text of a tokenizer.json; `files` stays empty. Throws as read_tokenizer.
TokenizerDescription parse_tokenizer_json(const std::string& text, const std::string& origin);
/// Accepts a file of any name: throws Error(usage) that describes the file if it is not a tokenizer.json.
void require_tokenizer_json(const std::string& text, const std::string& origin);
/// The model that vocab.json and merges.txt describe. Throws as read_tokenizer.
ModelDescription parse_vocabulary_and_merges(const std::string& vocabulary, const std::string& vocabulary_origin,
                                             std::string_view merges, const std::string& merges_origin);

/// Adds the tokens that files next to a tokenizer declare, and sets its end-of-text name and its reading of special
/// tokens. `defaults` are the named tokens of its class, `pieces` the special pieces of a sentencepiece model. Throws
/// as TokenizerSettings::tokens and add_declared_tokens.
void add_tokens_beside(const TokenizerSettings& settings, std::span<const NamedToken> defaults,
                       std::span<const AddedToken> pieces, TokenizerDescription& tokenizer);

/// Makes the tokenizer. Parameters and errors as of file_tokenizer.
std::unique_ptr<Tokenizer> json_tokenizer(TokenizerDescription description, const std::string& origin,
                                          const std::string& end_name, std::optional<SpecialTokens> reading);

/// The parts of byte-level BPE with one of the patterns. `composes`: normalizes to NFC; `adds_space`: puts a space
/// before text that does not begin with one.
TokenizerParts byte_level_parts(PieceRule rule, bool composes = false, bool adds_space = false);

/// Writes the tokenizer.json of byte-level BPE.
std::string bpe_tokenizer_json(const TokenizerDescription& bpe, const TokenizerParts& parts);

}  // namespace lockstep
