// The regular expression by which GPT-2 cuts text into pieces: contractions, words, numbers, other marks, white space.
// A pattern is shared by threads; each thread matches with its own PieceCutter.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace lockstep {

class PiecePattern {
 public:
  static PiecePattern gpt2();
  ~PiecePattern();
  PiecePattern(PiecePattern&&) noexcept;

 private:
  friend class PieceCutter;
  struct Code;
  explicit PiecePattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

/// Cuts one text after another; must not outlive the pattern.
class PieceCutter {
 public:
  explicit PieceCutter(const PiecePattern& pattern);
  ~PieceCutter();
  /// The end of the piece that begins at `begin` < text.size(); text is valid UTF-8. Throws Error(bug) if matching fails.
  std::size_t end_of_piece(std::string_view text, std::size_t begin);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
