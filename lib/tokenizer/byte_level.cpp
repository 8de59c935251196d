#include "tokenizer/byte_level.hpp"

#include "unicode/utf8.hpp"

#include <array>

namespace lockstep {

namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteAlphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 512> byte{};
  constexpr ByteAlphabet() {
    byte.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const char32_t c = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
      character[static_cast<std::size_t>(b)] = c;
      byte[c] = b;
    }
  }
};

constexpr ByteAlphabet byte_alphabet;

}  // namespace

char32_t character_of_byte(std::uint8_t byte) { return byte_alphabet.character[byte]; }

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_code_point(text, character_of_byte(static_cast<std::uint8_t>(byte)));
  return text;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t c = next_code_point(text, position);
    if (c >= byte_alphabet.byte.size() || byte_alphabet.byte[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_alphabet.byte[c]));
  }
  return bytes;
}

}  // namespace lockstep
