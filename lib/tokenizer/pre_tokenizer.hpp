// Pre-tokenizers of the tokenizers library: they cut a normalized text into the pieces that a model
// (tokenizer/token_model.hpp) turns into tokens one by one.
#pragma once

#include "base/json_fwd.hpp"
#include "tokenizer/piece_pattern.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A piece of a text, and its opening (unicode/text_opening.hpp). If the opening is not empty, it is the first piece of
/// its text.
struct TextPiece {
  std::string_view text;
  std::size_t opening = 0;
};

class PreTokenizer {
 public:
  /// No pre-tokenizer: a text is one piece.
  PreTokenizer() = default;
  /// Reads the pre_tokenizer of a tokenizer.json. Throws Error(usage) naming a part that is not supported, Error(input)
  /// if it is malformed.
  PreTokenizer(const Json& pre_tokenizer, const std::string& where);
  /// A byte-level pre-tokenizer with one of the patterns.
  explicit PreTokenizer(PieceRule rule) : byte_level_(true), rule_(rule) {}

  /// Whether the model sees text in the byte-level alphabet.
  bool is_byte_level() const { return byte_level_ || letters_; }
  /// Whether pieces are written in the byte-level alphabet. If not, pieces of a byte-level pre-tokenizer are raw bytes,
  /// which stand for the letters.
  bool gives_letters() const { return letters_ && !byte_level_; }
  /// Whether a text that does not begin with a space gets one.
  bool adds_space() const { return adds_space_; }
  /// The pattern, if there is no other step.
  std::optional<PieceRule> rule() const { return steps_.empty() ? rule_ : std::nullopt; }

  /// Cuts one text into pieces, which are valid as long as the text and `storage`. Throws Error(input) if they are far
  /// longer than the text.
  void split(TextPiece text, std::vector<TextPiece>& pieces, std::deque<std::string>& storage) const;

  /// As Tokenizer::last_cut, for a text without added tokens.
  std::size_t last_cut(std::string_view text) const;

 private:
  friend class PreTokenizerReader;
  /// Cuts says whether a step allows a cut before a space that follows another character: it makes one there, keeps one
  /// that another step makes, or may lose it.
  enum class Cuts { made, kept, lost };
  struct Step {
    std::function<void(TextPiece, std::vector<TextPiece>&, std::deque<std::string>&)> split;
    Cuts cuts;
  };
  std::vector<Step> steps_;
  bool byte_level_ = false;  // bytes become letters after all steps
  bool letters_ = false;     // bytes became letters before another step
  bool adds_space_ = false;
  std::optional<PieceRule> rule_;  // the last step
};

}  // namespace lockstep
