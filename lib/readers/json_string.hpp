// Writes text as a JSON string, for readers that convert other formats of records into JSON lines.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Appends `text` (UTF-8) in quotes, escaped.
inline void append_json_string(std::string& json, std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  json += '"';
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    json.append(text, begin, i - begin);
    begin = i + 1;
    switch (byte) {
      case '"': json += "\\\""; break;
      case '\\': json += "\\\\"; break;
      case '\n': json += "\\n"; break;
      case '\t': json += "\\t"; break;
      case '\r': json += "\\r"; break;
      default: json.append("\\u00").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    }
  }
  json.append(text, begin);
  json += '"';
}

}  // namespace lockstep
