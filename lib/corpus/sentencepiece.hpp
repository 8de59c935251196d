// sentencepiece's model files (tokenizer.model), read by hand from their protocol buffers: BPE and unigram models with
// their normalization, as the sentencepiece library reads them. Control pieces that a text spells out are text, as
// there.
#pragma once

#include "base/files.hpp"
#include "corpus/tokenizer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Whether bytes begin as a model of sentencepiece does.
bool is_sentencepiece(std::string_view bytes);

/// The tokenizer; `bytes` of the file `origin`. `end_name` names the end-of-text token; empty: the model's own, if it
/// has one. Throws Error(input) for a malformed file, Error(usage) that names what is not supported.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(std::string bytes, const std::string& origin,
                                                   const std::string& end_name);

/// The tokenizer of a model `file` and the files beside it: as sentencepiece_tokenizer, or as LlamaTokenizer of
/// transformers if they declare special or added tokens that sentencepiece would not read. Throws
/// likewise, and Error(usage) for such tokens with another tokenizer_class.
std::unique_ptr<Tokenizer> sentencepiece_in_folder(std::string bytes, const Path& file, const std::string& end_name,
                                                   std::optional<SpecialTokens> reading);

enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

/// What a model file says.
struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };
  Kind kind = Kind::unigram;
  std::vector<SentencePiece> pieces;  // by id
  std::int32_t unknown_id = 0;
  std::optional<std::int32_t> end_id;
  std::string unknown_surface = " \u2047 ";
  bool byte_fallback = false;
  bool space_is_suffix = false;
  std::string charsmap;  // empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& origin);

}  // namespace lockstep
