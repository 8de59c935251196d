// How a normalized text falls into the pieces that a model turns into tokens one by one: the pre-tokenizers of the
// tokenizers library.
#pragma once

#include "base/json_fwd.hpp"
#include "corpus/piece_pattern.hpp"

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A piece of a text, and whether the text begins with it.
struct TextPiece {
  std::string_view text;
  bool begins_text = false;
};

class PreTokenizer {
 public:
  /// None: a text is one piece.
  PreTokenizer() = default;
  /// Of a tokenizer.json. Throws Error(usage) that names what is not supported, Error(input) for what is malformed.
  PreTokenizer(const Json& pre_tokenizer, const std::string& where);
  /// One of the patterns, and bytes.
  explicit PreTokenizer(PieceRule rule) : byte_level_(true), rule_(rule) {}

  /// Whether the model sees bytes: pieces are given as they are, and mean the letters that stand for their bytes.
  bool is_byte_level() const { return byte_level_; }
  /// Whether pieces that do not begin with a space get one.
  bool adds_space() const { return adds_space_; }
  /// The pattern, if there is no other step.
  std::optional<PieceRule> rule() const { return steps_.empty() ? rule_ : std::nullopt; }

  /// Makes pieces of one text; they are valid as long as the text and `storage`.
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
  bool byte_level_ = false;
  bool adds_space_ = false;
  std::optional<PieceRule> rule_;  // the last step
};

}  // namespace lockstep
