// Code points of valid UTF-8, one at a time. Whether text is valid: base/text.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The code point at `position`, which moves behind it. The text must be valid.
char32_t next_code_point(std::string_view text, std::size_t& position);

/// The last code point of `text`; nothing if it ends in bytes that are none.
std::optional<char32_t> last_code_point(std::string_view text);

void append_code_point(std::string& text, char32_t code_point);

/// The length of `text` without a sequence that its end cuts off.
std::size_t whole_code_points(std::string_view text);

/// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

}  // namespace lockstep
