#include "jinja/template_text.hpp"

#include "jinja/character_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace lockstep::jinja {

char32_t next_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const std::size_t length = lead >= 0xF0 && lead < 0xF8 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (length == 1 || lead >= 0xF8 || text.size() - at < length) {
    ++at;
    return 0xFFFD;
  }
  char32_t point = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) {
      ++at;
      return 0xFFFD;
    }
    point = point << 6 | (byte(at + i) & 0x3FU);
  }
  at += length;
  return point;
}

void append_point(std::string& text, char32_t point) {
  const auto add = [&](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0 | point >> 6);
    add(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  } else {
    add(0xF0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

std::size_t count_points(std::string_view text) {
  if (is_ascii(text)) return text.size();
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) next_point(text, at);
  return count;
}

std::size_t byte_of_point(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) next_point(text, at);
  return at;
}

std::vector<std::string_view> points_of(std::string_view text) {
  std::vector<std::string_view> points;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_point(text, at);
    points.push_back(text.substr(begin, at - begin));
  }
  return points;
}

std::uint16_t traits_of(char32_t point) {
  const auto runs = character_runs();
  const auto after = std::ranges::upper_bound(runs, point, {}, &CharacterRun::first);
  return std::prev(after)->traits;
}

bool is_white_space(char32_t point) {
  if (point < 0x80) return point == ' ' || (point >= 9 && point <= 13) || (point >= 28 && point <= 31);
  return (traits_of(point) & white_space) != 0;
}

namespace {

template <class Strips>
std::string_view stripped_of(std::string_view text, StripSide side, Strips strips) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  if (side != StripSide::right) {
    while (begin < end) {
      std::size_t after = begin;
      const char32_t point = next_point(text, after);
      if (!strips(point, text.substr(begin, after - begin))) break;
      begin = after;
    }
  }
  if (side != StripSide::left) {
    while (begin < end) {
      std::size_t last = end - 1;
      while (last > begin && end - last < 4 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
      std::size_t after = last;
      const char32_t point = next_point(text.substr(0, end), after);
      if (after != end) last = end - 1;  // no code point: a byte alone
      if (!strips(after == end ? point : 0xFFFD, text.substr(last, end - last))) break;
      end = last;
    }
  }
  return text.substr(begin, end - begin);
}

void append_changed(std::string& out, char32_t point, std::span<const CaseRun> runs,
                    std::span<const LongCase> several) {
  const auto found = std::ranges::lower_bound(several, point, {}, &LongCase::point);
  if (found == several.end() || found->point != point) {
    append_point(out, changed_point(point, runs));
    return;
  }
  for (const char32_t part : found->parts) {
    if (part != 0) append_point(out, part);
  }
}

constexpr char32_t large_sigma = 0x3A3;

/// Whether the sigma that stands in text from `begin` to `end` ends a word: then its small letter is another.
bool ends_word(std::string_view text, std::size_t begin, std::size_t end) {
  bool before = false;
  for (std::size_t at = 0; at < begin;) {
    const std::uint16_t traits = traits_of(next_point(text, at));
    if ((traits & passed_over) == 0) before = (traits & cased) != 0;
  }
  if (!before) return false;
  for (std::size_t at = end; at < text.size();) {
    const std::uint16_t traits = traits_of(next_point(text, at));
    if ((traits & passed_over) == 0) return (traits & cased) == 0;
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t begin, std::size_t end, char32_t point) {
  if (point == large_sigma) {
    append_point(out, ends_word(text, begin, end) ? 0x3C2 : 0x3C3);
  } else {
    append_changed(out, point, lower_case_runs(), long_lower_cases());
  }
}

/// Each code point by `change(out, point, begin, end)`.
template <class Change>
std::string changed(std::string_view text, Change change) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_point(text, at);
    if (point == 0xFFFD) {
      out.append(text.substr(begin, at - begin));
    } else {
      change(out, point, begin, at);
    }
  }
  return out;
}

std::string changed_ascii(std::string_view text, char first, char last) {
  std::string out(text);
  for (char& c : out) {
    if (c >= first && c <= last) c = static_cast<char>(c ^ 0x20);
  }
  return out;
}

}  // namespace

std::string_view stripped(std::string_view text, StripSide side) {
  return stripped_of(text, side, [](char32_t point, std::string_view) { return is_white_space(point); });
}

std::string_view stripped(std::string_view text, StripSide side, std::string_view these) {
  return stripped_of(text, side, [&](char32_t, std::string_view bytes) {
    for (std::size_t at = 0; at < these.size();) {
      const std::size_t begin = at;
      next_point(these, at);
      if (these.substr(begin, at - begin) == bytes) return true;
    }
    return false;
  });
}

std::string to_lower(std::string_view text) {
  if (is_ascii(text)) return changed_ascii(text, 'A', 'Z');
  return changed(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    append_lower(out, text, begin, end, point);
  });
}

std::string to_upper(std::string_view text) {
  if (is_ascii(text)) return changed_ascii(text, 'a', 'z');
  return changed(text, [](std::string& out, char32_t point, std::size_t, std::size_t) {
    append_changed(out, point, upper_case_runs(), long_upper_cases());
  });
}

std::string to_folded(std::string_view text) {
  if (is_ascii(text)) return changed_ascii(text, 'A', 'Z');
  return changed(text, [](std::string& out, char32_t point, std::size_t, std::size_t) {
    append_changed(out, point, folded_case_runs(), long_folded_cases());
  });
}

std::string to_title(std::string_view text) {
  bool in_word = false;
  return changed(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    if (in_word) {
      append_lower(out, text, begin, end, point);
    } else {
      append_changed(out, point, title_case_runs(), long_title_cases());
    }
    // Python goes by the letters that have a case, those that are passed over among them.
    const std::uint16_t traits = traits_of(point);
    in_word = (traits & (lower_case | upper_case | title_case)) != 0;
  });
}

std::string capitalized(std::string_view text) {
  return changed(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    if (begin == 0) {
      append_changed(out, point, title_case_runs(), long_title_cases());
    } else {
      append_lower(out, text, begin, end, point);
    }
  });
}

std::string with_cases_swapped(std::string_view text) {
  return changed(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    const std::uint16_t traits = traits_of(point);
    if ((traits & upper_case) != 0) {
      append_lower(out, text, begin, end, point);
    } else if ((traits & lower_case) != 0) {
      append_changed(out, point, upper_case_runs(), long_upper_cases());
    } else {
      append_point(out, point);
    }
  });
}

std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most, bool from_right) {
  std::vector<std::string_view> words;
  const std::string_view whole = text;
  for (text = stripped(text, StripSide::left); !text.empty(); text = stripped(text, StripSide::left)) {
    if (!from_right && most >= 0 && std::cmp_equal(words.size(), most)) {
      words.push_back(text);  // what is left keeps its white space
      break;
    }
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); end = at) {
      if (is_white_space(next_point(text, at))) break;
    }
    words.push_back(text.substr(0, end));
    text = text.substr(end);
  }
  if (from_right && most >= 0 && std::cmp_greater(words.size(), most)) {
    const std::size_t first = words.size() - static_cast<std::size_t>(most) - 1;
    const std::string_view last = words[first];
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
    words.front() = whole.substr(0, static_cast<std::size_t>(last.data() + last.size() - whole.data()));
  }
  return words;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t most,
                                       bool from_right) {
  std::vector<std::string_view> parts;
  while (most < 0 || std::cmp_less(parts.size(), most)) {
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
  }
  parts.push_back(text);
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  const auto ends_line = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t point = next_point(text, at);
    if (!ends_line(point)) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by, std::int64_t most) {
  std::string out;
  std::size_t at = 0;
  std::int64_t done = 0;
  const auto may = [&] { return most < 0 || done < most; };
  if (old.empty()) {
    for (; may(); ++done) {
      out.append(by);
      if (at == text.size()) return out;
      const std::size_t begin = at;
      next_point(text, at);
      out.append(text.substr(begin, at - begin));
    }
    return out.append(text.substr(at));
  }
  for (; may(); ++done) {
    const std::size_t found = text.find(old, at);
    if (found == std::string_view::npos) break;
    out.append(text.substr(at, found - at)).append(by);
    at = found + old.size();
  }
  return out.append(text.substr(at));
}

std::int64_t count_of(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<std::int64_t>(count_points(text)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

bool all_have(std::string_view text, std::uint16_t traits) {
  for (std::size_t at = 0; at < text.size();) {
    if ((traits_of(next_point(text, at)) & traits) == 0) return false;
  }
  return !text.empty();
}

namespace {

bool has_case(std::string_view text, std::uint16_t wanted) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint16_t traits = traits_of(next_point(text, at)) & (lower_case | upper_case | title_case);
    if ((traits & ~wanted & (lower_case | upper_case)) != 0 || traits == title_case) return false;
    found = found || (traits & wanted) != 0;
  }
  return found;
}

}  // namespace

bool is_lower(std::string_view text) { return has_case(text, lower_case); }
bool is_upper(std::string_view text) { return has_case(text, upper_case); }

bool is_title(std::string_view text) {
  bool found = false;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint16_t traits = traits_of(next_point(text, at));
    const bool begins = (traits & (upper_case | title_case)) != 0;
    const bool goes_on = !begins && (traits & lower_case) != 0;
    if ((begins && in_word) || (goes_on && !in_word)) return false;
    in_word = begins || goes_on;
    found = found || in_word;
  }
  return found;
}

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto written =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  std::string out;
  if (text.front() == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  std::string digits(1, text.front());
  if (e > 2) digits.append(text.substr(2, e - 2));
  int exponent = 0;
  const std::string_view power = text.substr(text[e + 1] == '+' ? e + 2 : e + 1);
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out.push_back(digits.front());
    if (count > 1) out.append(".").append(digits.substr(1));
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  if (count <= exponent + 1)
    return out.append(digits).append(static_cast<std::size_t>(exponent + 1 - count), '0').append(".0");
  const auto whole = static_cast<std::size_t>(exponent + 1);
  return out.append(digits.substr(0, whole)).append(".").append(digits.substr(whole));
}

void append_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.push_back(quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_point(text, at);
    if (point == static_cast<unsigned char>(quote) || point == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(point));
    } else if (point == '\n') {
      out.append("\\n");
    } else if (point == '\r') {
      out.append("\\r");
    } else if (point == '\t') {
      out.append("\\t");
    } else if (point < 0x80 ? point >= 0x20 && point != 0x7F : (traits_of(point) & printable) != 0) {
      out.append(text.substr(begin, at - begin));
    } else if (point < 0x100) {
      out.append(fmt::format("\\x{:02x}", static_cast<unsigned>(point)));
    } else if (point < 0x10000) {
      out.append(fmt::format("\\u{:04x}", static_cast<unsigned>(point)));
    } else {
      out.append(fmt::format("\\U{:08x}", static_cast<unsigned>(point)));
    }
  }
  out.push_back(quote);
}

}  // namespace lockstep::jinja
