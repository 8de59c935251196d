// Models turn a piece of text into tokens: byte-pair encoding, word pieces, whole words, or the likeliest pieces
// (unigram). Threads share a model; each encodes with its own PieceEncoder.
#pragma once

#include "tokenizer/tokenizer_json.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

inline constexpr std::string_view space_mark = "\u2581";  // ▁, in front of a word in many vocabularies

/// Encodes pieces on one thread.
class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  /// Appends the ids of a piece, which is not empty. Throws Error(input) for text that has no token in the vocabulary.
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids) = 0;
  /// Number of characters in all pieces so far that had no token and were dropped; bytes where pieces are bytes.
  std::uint64_t left_out() const { return left_out_; }

 protected:
  std::uint64_t left_out_ = 0;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Returns an encoder, which must not outlive the model.
  virtual std::unique_ptr<PieceEncoder> encoder() const = 0;
  /// Whether pieces are raw bytes rather than letters of the byte-level alphabet.
  virtual bool reads_bytes() const { return false; }
  /// Whether a piece may be encoded in parts that begin at each run of ▁ after another character.
  virtual bool cuts_before_words() const { return false; }
};

/// Makes the model. `byte_level`: pieces stand for letters of the byte-level alphabet. Throws Error(input) for an
/// inconsistent vocabulary.
std::unique_ptr<TokenModel> token_model(const ModelDescription& model, bool byte_level, const std::string& origin);

// One function for each kind; token_model calls them.
std::unique_ptr<TokenModel> bpe_model(const ModelDescription& model, bool byte_level, const std::string& origin);
std::unique_ptr<TokenModel> word_piece_model(const ModelDescription& model, const std::string& origin);
std::unique_ptr<TokenModel> word_level_model(const ModelDescription& model, const std::string& origin);
std::unique_ptr<TokenModel> unigram_model(const ModelDescription& model, const std::string& origin);

/// A hash that lets a map of tokens look up a view without making a string.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using TokenIds = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;

constexpr std::int32_t no_token = -1;
inline std::int32_t id_in(const TokenIds& ids, std::string_view text) {
  const auto found = ids.find(text);
  return found == ids.end() ? no_token : found->second;
}

/// The ids of a vocabulary. Throws Error(input) if a token occurs twice.
TokenIds token_ids(const ModelDescription& model, const std::string& origin);

/// Appends the tokens <0xNN> of the bytes. Returns false and appends nothing if one of them is absent.
bool append_byte_tokens(std::string_view bytes, const TokenIds& ids, std::vector<std::int32_t>& out);

/// The end of the word at `at`: the first ▁ after it that follows another character, or the end of the piece.
std::size_t end_of_word(std::string_view piece, std::size_t at);

/// Whether ▁ follows another character within the token.
bool spans_words(std::string_view token);

}  // namespace lockstep
