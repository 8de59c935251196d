#include "unicode/text_opening.hpp"

#include "unicode/utf8.hpp"

#include <algorithm>

namespace lockstep {

void OpeningTracker::pass_character() {
  if (at_ < text_.size()) next_code_point(text_, at_);
}

bool OpeningTracker::add(std::size_t bytes, int change) {
  // An inserted character has the origin of the character before it, at the very front that of the text.
  const bool within = change > 0 ? at_ == 0 || at_ - 1 < opening_ : at_ < opening_;
  if (change <= 0) {
    for (int i = change; i <= 0; ++i) pass_character();
  }
  if (within) made_ += bytes;
  return within;
}

std::size_t opening_of_part(std::size_t opening, std::size_t begin, std::size_t size) {
  return opening > begin ? std::min(opening - begin, size) : 0;
}

std::size_t first_character(std::string_view text) {
  std::size_t behind = 0;
  if (!text.empty()) next_code_point(text, behind);
  return behind;
}

}  // namespace lockstep
