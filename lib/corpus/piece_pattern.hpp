// How GPT-2 cuts text into pieces: contractions, words, numbers, other marks, white space. Its regular expression,
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// asks of a character only to which of four classes it belongs, so it is followed by hand over a table of classes.
// A pattern is shared by threads; each thread cuts with its own PieceCutter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep {

enum class CharacterClass : std::uint8_t { letter, number, space, mark };

class PiecePattern {
 public:
  static constexpr char32_t page_size = 256;  // code points
  using Classes = std::array<CharacterClass, page_size>;

  static PiecePattern gpt2();
  ~PiecePattern();
  PiecePattern(PiecePattern&&) noexcept;
  /// Of the page of code points that begins with `first`, one without surrogates.
  Classes classes_of_page(char32_t first) const;

 private:
  struct Code;
  explicit PiecePattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

/// Cuts one text after another; must not outlive the pattern.
class PieceCutter {
 public:
  explicit PieceCutter(const PiecePattern& pattern);
  /// The end of the piece that begins at `begin` < text.size(); text is valid UTF-8.
  std::size_t end_of_piece(std::string_view text, std::size_t begin);

 private:
  // The class of the character at `at`, which moves behind it.
  CharacterClass take(std::string_view text, std::size_t& at);
  CharacterClass take_beyond_ascii(std::string_view text, std::size_t& at);
  std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass of);
  std::size_t end_of_spaces(std::string_view text, std::size_t begin);

  static constexpr std::size_t page_count = 0x110000 / PiecePattern::page_size;
  const PiecePattern* pattern_;
  PiecePattern::Classes ascii_;  // the first page
  std::vector<std::unique_ptr<PiecePattern::Classes>> pages_ =
      std::vector<std::unique_ptr<PiecePattern::Classes>>(page_count);  // as met
};

}  // namespace lockstep
