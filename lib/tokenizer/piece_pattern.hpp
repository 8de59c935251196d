// Cuts text into pieces as byte-level tokenizers do: contractions, words, numbers, other marks, white space. The
// patterns of GPT-2, Llama-3, Qwen2 and o200k distinguish only a few classes of characters, so hand-written code
// follows their regular expressions. Other expressions: tokenizer/regular_expression.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// PieceRule names a pattern; whole_text makes no cut.
enum class PieceRule : std::uint8_t { whole_text, gpt2, llama3, qwen2, o200k };

/// The regular expression of a rule, as a tokenizer.json writes it; "" for whole_text.
std::string_view expression_of(PieceRule rule);
/// The rule of an expression, which must be spelled as files of tokenizers spell it; nothing if it is none of these.
std::optional<PieceRule> piece_rule(std::string_view expression);

/// CutBefore says which white space may begin a part of a text that is encoded separately.
enum class CutBefore : std::uint8_t { space, space_or_line_end };

/// The largest p < text.size() at which every text that begins with `text` may be cut: its pieces are the pieces of the
/// part before p, followed by those of the rest. 0 if there is no such place, and always for whole_text.
std::size_t last_piece_cut(PieceRule rule, CutBefore before, std::string_view text);

/// Finds the pieces of one text after the other.
class PieceCutter {
 public:
  explicit PieceCutter(PieceRule rule);
  /// The end of the piece that begins at `begin` < text.size(). The text is valid UTF-8.
  std::size_t end_of_piece(std::string_view text, std::size_t begin) const;

 private:
  using Classes = std::uint8_t;  // a set of classes
  // The class of the character at `at`; moves `at` past it.
  Classes take(std::string_view text, std::size_t& at) const;
  std::size_t end_of_run(std::string_view text, std::size_t at, Classes of) const;
  std::size_t end_of_spaces(std::string_view text, std::size_t begin) const;
  std::size_t end_of_lines(std::string_view text, std::size_t begin) const;
  std::size_t end_of_numbers(std::string_view text, std::size_t at, int most) const;
  std::size_t end_of_gpt2(std::string_view text, std::size_t begin) const;
  std::size_t end_of_llama3(std::string_view text, std::size_t begin, int most_numbers) const;
  std::size_t end_of_o200k(std::string_view text, std::size_t begin) const;
  std::size_t end_of_cased_word(std::string_view text, std::size_t begin) const;

  PieceRule rule_;
  const std::vector<Classes>* classes_;  // by code point
};

}  // namespace lockstep
