#include "base/text.hpp"

#include "base/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace lockstep {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string_view trim(std::string_view text) {
  const char* const blank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

namespace {

std::string scaled(double value, double step, const std::array<const char*, 7>& units) {
  std::size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const bool whole = unit == 0 || std::abs(value) >= 100;
  std::string number = whole ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
  return units[unit][0] == '\0' ? number : fmt::format("{} {}", number, units[unit]);
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::optional<std::size_t> least;
  for (const std::string& candidate : candidates) {
    const std::optional<std::size_t> distance = misspelling(word, candidate);
    if (!distance || (least && *distance >= *least)) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

std::string human_bytes(std::uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

std::string human_count(double count) { return scaled(count, 1000, {"", "k", "M", "G", "T", "P", "E"}); }

std::string human_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  text = trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !(value >= 0 && value < 0x1p63)) return std::nullopt;
  const std::string_view unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  static constexpr std::array<std::pair<std::string_view, double>, 10> units{{{"", 1},
                                                                              {"B", 1},
                                                                              {"KiB", 1024.0},
                                                                              {"MiB", 1048576.0},
                                                                              {"GiB", 1073741824.0},
                                                                              {"TiB", 1099511627776.0},
                                                                              {"kB", 1e3},
                                                                              {"MB", 1e6},
                                                                              {"GB", 1e9},
                                                                              {"TB", 1e12}}};
  for (const auto& [name, factor] : units) {
    if (unit == name && value * factor < 0x1p64) return static_cast<std::uint64_t>(value * factor);
  }
  return std::nullopt;
}

std::optional<double> parse_seconds(std::string_view text) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || !(value >= 0 && value < 0x1p63)) return std::nullopt;
    text = trim(text.substr(static_cast<std::size_t>(end - text.data())));
    double factor = 1;
    if (!text.empty()) {
      switch (text.front()) {
        case 's': factor = 1; break;
        case 'm': factor = 60; break;
        case 'h': factor = 3600; break;
        case 'd': factor = 86400; break;
        default: return std::nullopt;
      }
      text = trim(text.substr(1));
    }
    total += value * factor;
  }
  if (total >= 0x1p63) return std::nullopt;
  return total;
}

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    // overlong forms, surrogates, beyond U+10FFFF
    if ((lead == 0xE0 && byte(i + 1) < 0xA0) || (lead == 0xED && byte(i + 1) > 0x9F) ||
        (lead == 0xF0 && byte(i + 1) < 0x90) || (lead == 0xF4 && byte(i + 1) > 0x8F)) {
      return i;
    }
    i += length;
  }
  return std::nullopt;
}

std::string printable(std::string_view text) {
  constexpr std::string_view replacement = "\uFFFD";
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  std::string shown;
  while (!text.empty()) {
    const std::size_t valid = first_invalid_utf8(text).value_or(text.size());
    for (std::size_t at = 0; at < valid; ++at) {
      const bool is_c1 = byte(at) == 0xC2 && byte(at + 1) < 0xA0;
      const bool is_control = is_c1 || byte(at) == 0x7F || (byte(at) < 0x20 && text[at] != '\n' && text[at] != '\t');
      if (is_control)
        shown += replacement;
      else
        shown += text[at];
      if (is_c1) ++at;
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    shown += replacement;
    text.remove_prefix(1);
  }
  return shown;
}

}  // namespace lockstep
