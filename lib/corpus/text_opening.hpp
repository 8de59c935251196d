// The opening of a normalized text: the bytes at its front that stem from the first character of the original text. The
// tokenizers library keeps the origin of each byte; a piece counts as the first of its text if it stems from there.
// This follows the opening through the library's transformations.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

/// Follows a transformation from its front on, character by character.
class OpeningTracker {
 public:
  /// Of `text`, whose opening is given; the transformation leaves out the first `removed` bytes.
  OpeningTracker(std::string_view text, std::size_t opening, std::size_t removed = 0)
      : text_(text), opening_(opening), at_(removed) {}

  /// The next character of the result, of `bytes`. `change` as the library counts: 1 for one that is inserted, else it
  /// stands for the next character of the text, and -change more are left out behind that. False behind the opening.
  bool add(std::size_t bytes, int change);
  /// The opening of the result, once `add` was false or all characters are added.
  std::size_t opening() const { return made_; }

 private:
  void pass_character();

  std::string_view text_;
  std::size_t opening_;
  std::size_t at_;
  std::size_t made_ = 0;
};

/// The opening of the part of a text that begins at `begin`, of `size` bytes.
std::size_t opening_of_part(std::size_t opening, std::size_t begin, std::size_t size);
/// That of a text itself: its first character.
std::size_t first_character(std::string_view text);

}  // namespace lockstep
