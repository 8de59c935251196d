// How a normalized text falls into the pieces that a model turns into tokens one by one: the pre-tokenizers of the
// tokenizers library.
#pragma once

#include "base/json_fwd.hpp"
#include "corpus/piece_pattern.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A piece of a text, and its opening (corpus/text_opening.hpp): it is the first of its text if that is not empty.
struct TextPiece {
  std::string_view text;
  std::size_t opening = 0;
};

class PreTokenizer {
 public:
  /// None: a text is one piece.
  PreTokenizer() = default;
  /// Of a tokenizer.json. Throws Error(usage) that names what is not supported, Error(input) for what is malformed.
  PreTokenizer(const Json& pre_tokenizer, const std::string& where);
  /// One of the patterns, and bytes.
  explicit PreTokenizer(PieceRule rule) : byte_level_(true), rule_(rule) {}

  /// Whether the model sees the letters that stand for bytes.
  bool is_byte_level() const { return byte_level_ || letters_; }
  /// Whether pieces are these letters; else they are given as they are, and mean the letters of their bytes.
  bool gives_letters() const { return letters_ && !byte_level_; }
  /// Whether pieces that do not begin with a space get one.
  bool adds_space() const { return adds_space_; }
  /// The pattern, if there is no other step.
  std::optional<PieceRule> rule() const { return steps_.empty() ? rule_ : std::nullopt; }

  /// Makes pieces of one text; they are valid as long as the text and `storage`. Throws Error(input) if they
  /// are far longer than the text.
  void split(TextPiece text, std::vector<TextPiece>& pieces, std::deque<std::string>& storage) const;

  /// As Tokenizer::last_cut, of a text without added tokens.
  std::size_t last_cut(std::string_view text) const;

 private:
  friend class PreTokenizerReader;
  /// Whether parts that a space begins come out as within the whole text, when they begin behind no space.
  enum class Cuts { made, kept, lost };
  struct Step {
    std::function<void(TextPiece, std::vector<TextPiece>&, std::deque<std::string>&)> split;
    Cuts cuts;
  };
  std::vector<Step> steps_;
  bool byte_level_ = false;  // letters take the place of bytes behind all steps
  bool letters_ = false;     // they did so before another step
  bool adds_space_ = false;
  std::optional<PieceRule> rule_;  // the last step
};

}  // namespace lockstep
