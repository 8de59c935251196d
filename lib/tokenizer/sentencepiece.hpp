// Reads sentencepiece's model files (tokenizer.model) from their protocol buffers: BPE and unigram models with their
// normalization, as the sentencepiece library reads them. As in that library, control pieces that a text spells out are
// plain text.
#pragma once

#include "base/files.hpp"
#include "tokenizer/tokenizer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Whether bytes begin like a sentencepiece model.
bool is_sentencepiece(std::string_view bytes);

/// Makes the tokenizer from `bytes`, the content of the file `origin`. `end_name` names the end-of-text token; empty:
/// the model's own, if it has one. Throws Error(input) for a malformed file, Error(usage) naming a part that is not
/// supported.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(std::string bytes, const std::string& origin,
                                                   const std::string& end_name);

/// Makes the tokenizer of a model `file` and the files next to it. It equals sentencepiece_tokenizer, unless these
/// files declare special or added tokens that sentencepiece would not read: then LlamaTokenizer of transformers. Throws
/// likewise, and Error(usage) for such tokens with another tokenizer_class, and for a class with other ids
/// (require_own_numbers).
std::unique_ptr<Tokenizer> sentencepiece_in_folder(std::string bytes, const Path& file, const std::string& end_name,
                                                   std::optional<SpecialTokens> reading);

enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

/// The contents of a model file.
struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };
  Kind kind = Kind::unigram;
  std::vector<SentencePiece> pieces;  // by id
  std::int32_t unknown_id = 0;
  std::optional<std::int32_t> end_id;
  std::string unknown_surface = " \u2047 ";
  bool byte_fallback = false;
  bool space_is_suffix = false;
  std::string charsmap;  // empty if there is none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& origin);

}  // namespace lockstep
