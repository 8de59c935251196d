// The opening of a normalized text: the bytes at its front that stem from the first character of the original text. The
// tokenizers library keeps the origin of each byte, and a piece counts as the first of its text if it stems from that
// character. This header tracks the opening through the library's transformations.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

/// Tracks a transformation character by character, from the front of the text.
class OpeningTracker {
 public:
  /// Starts a transformation of `text`, which has the given opening. The transformation drops the first `removed`
  /// bytes.
  OpeningTracker(std::string_view text, std::size_t opening, std::size_t removed = 0)
      : text_(text), opening_(opening), at_(removed) {}

  /// Adds the next character of the result, which has `bytes` bytes. `change` counts as in the library: 1 for an
  /// inserted character. Otherwise the character replaces the next one of the text, and -change more characters are
  /// dropped after that. Returns false past the opening.
  bool add(std::size_t bytes, int change);
  /// The opening of the result, once add() has returned false or all characters are added.
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
/// The opening of an original text: the size of its first character.
std::size_t first_character(std::string_view text);

}  // namespace lockstep
