// What turns a piece of text into tokens: byte-pair encoding, word pieces, whole words, or the likeliest pieces. Shared
// by threads; each encodes with its own PieceEncoder.
#pragma once

#include "corpus/tokenizer_json.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

/// Of one thread.
class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  /// Appends the ids of a piece that is not empty. Throws Error(input) for what the vocabulary has no token for.
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids) = 0;
  /// Characters of all pieces so far, or bytes where pieces are bytes, that have no token and were left out.
  std::uint64_t left_out() const { return left_out_; }

 protected:
  std::uint64_t left_out_ = 0;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Must not outlive the model.
  virtual std::unique_ptr<PieceEncoder> encoder() const = 0;
  /// Whether pieces are given as bytes, not as the letters that stand for them.
  virtual bool reads_bytes() const { return false; }
  /// Whether a piece may be encoded in parts that begin at each run of ▁ behind another character.
  virtual bool cuts_before_words() const { return false; }
};

/// `byte_level`: pieces are letters that stand for bytes. Throws Error(input) for a vocabulary that contradicts itself.
std::unique_ptr<TokenModel> token_model(const ModelDescription& model, bool byte_level, const std::string& origin);

// Each kind, for token_model.
std::unique_ptr<TokenModel> bpe_model(const ModelDescription& model, bool byte_level, const std::string& origin);
std::unique_ptr<TokenModel> word_piece_model(const ModelDescription& model, const std::string& origin);
std::unique_ptr<TokenModel> word_level_model(const ModelDescription& model, const std::string& origin);
std::unique_ptr<TokenModel> unigram_model(const ModelDescription& model, const std::string& origin);

/// Tokens by their text, to be asked without making a text.
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

/// Of a vocabulary in which no token stands twice. Throws Error(input).
TokenIds token_ids(const ModelDescription& model, const std::string& origin);

/// Appends the tokens <0xNN> of the bytes; false, and nothing is appended, if one is absent.
bool append_byte_tokens(std::string_view bytes, const TokenIds& ids, std::vector<std::int32_t>& out);

/// Where the word goes on to the next: behind `at` the first ▁ that follows another character, or the end.
std::size_t end_of_word(std::string_view piece, std::size_t at);

/// Whether ▁ follows another character within the token.
bool spans_words(std::string_view token);

}  // namespace lockstep
