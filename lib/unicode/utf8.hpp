// Reads and writes code points of valid UTF-8, one at a time. Checking text: base/text.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The code point at `position`; moves `position` past it. The text must be valid.
char32_t next_code_point(std::string_view text, std::size_t& position);

/// The last code point of `text`; nothing if `text` is empty or ends in bytes that are not UTF-8.
std::optional<char32_t> last_code_point(std::string_view text);

void append_code_point(std::string& text, char32_t code_point);

/// The length of `text` without an incomplete sequence at its end.
std::size_t whole_code_points(std::string_view text);

/// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

}  // namespace lockstep
