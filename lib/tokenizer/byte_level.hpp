// GPT-2's byte-level alphabet: every byte has a printable character, so that vocabularies can be written as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The character that stands for `byte`: itself if printable in Latin-1, else one of U+0100 ….
char32_t character_of_byte(std::uint8_t byte);

/// The UTF-8 text that stands for `bytes`.
std::string to_byte_level(std::string_view bytes);

/// The bytes that `text` stands for; nothing if one of its characters stands for no byte.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace lockstep
