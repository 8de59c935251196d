#include "unicode/utf8.hpp"

namespace lockstep {

namespace {
unsigned char byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}
bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }
std::size_t sequence_length(unsigned char lead) { return lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2; }
}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const unsigned char lead = byte_at(text, position);
  const std::size_t length = sequence_length(lead);
  char32_t value = length == 1 ? lead : lead & (0x7Fu >> length);
  for (std::size_t k = 1; k < length; ++k) value = value << 6 | (byte_at(text, position + k) & 0x3Fu);
  position += length;
  return value;
}

std::optional<char32_t> last_code_point(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4) {
    if (continues(byte_at(text, --begin))) continue;
    if (begin + sequence_length(byte_at(text, begin)) != text.size()) return std::nullopt;
    return next_code_point(text, begin);
  }
  return std::nullopt;
}

void append_code_point(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::size_t whole_code_points(std::string_view text) {
  std::size_t begin = text.size();
  for (int back = 0; back < 4 && begin > 0; ++back) {
    --begin;
    if (continues(byte_at(text, begin))) continue;
    return begin + sequence_length(byte_at(text, begin)) > text.size() ? begin : text.size();
  }
  return text.size();
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace lockstep
