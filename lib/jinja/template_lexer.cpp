#include "jinja/template_lexer.hpp"

#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace lockstep::jinja {

std::string with_plain_lines(std::string_view source) {
  std::string lines;
  lines.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      lines.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      lines.push_back(source[i]);
    }
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// The value of a digit in some base; 99 if it is none.
int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    add(TemplateTokenKind::end, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw TemplateSyntaxFault(line_, message); }
  bool is_at(std::string_view word, std::size_t at) const {
    return source_.substr(std::min(at, source_.size())).starts_with(word);
  }
  bool is_at(std::string_view word) const { return is_at(word, at_); }
  char byte(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  std::size_t behind_space(std::size_t at) const {
    return at + (source_.substr(at).size() - stripped(source_.substr(at), StripSide::left).size());
  }

  Token& add(TemplateTokenKind kind, std::string_view source) {
    tokens_.push_back({.kind = kind, .line = line_, .source = source});
    return tokens_.back();
  }
  /// Goes on behind what a rule matched.
  void pass(std::size_t end) {
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, end - at_), '\n'));
    line_starts_ = end > at_ && source_[end - 1] == '\n';
    at_ = end;
  }

  void root();
  void data(std::size_t end, char sign, bool output);
  void comment();
  void raw(std::size_t begin);
  void inside(bool output);
  bool tag_ends(bool output);
  std::size_t end_behind(std::size_t sign_at, std::string_view close, bool trims_line) const;
  void word();
  void operation();
  void number();
  void text();
  void escape(std::string& out, std::string_view body, std::size_t& at) const;

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::string open_;  // brackets that wait for their end
  std::vector<Token> tokens_;
};

/// Text up to a tag, without the white space that the tag takes along.
void Lexer::data(std::size_t end, char sign, bool output) {
  std::string_view text = source_.substr(at_, end - at_);
  if (sign == '-') {
    text = stripped(text, StripSide::right);
  } else if (sign != '+' && !output) {
    const std::size_t line_begin = text.rfind('\n') + 1;  // 0 if there is none
    if ((line_begin > 0 || line_starts_) && stripped(text.substr(line_begin), StripSide::left).empty())
      text = text.substr(0, line_begin);
  }
  if (!text.empty()) add(TemplateTokenKind::data, text);
  line_ += static_cast<int>(std::ranges::count(source_.substr(at_, end - at_), '\n'));
  at_ = end;
}

void Lexer::root() {
  std::size_t tag = at_;
  do {
    tag = source_.find('{', tag);
    if (tag == std::string_view::npos) {
      add(TemplateTokenKind::data, source_.substr(at_));
      at_ = source_.size();
      return;
    }
    const char next = byte(tag + 1);
    if (next == '%' || next == '{' || next == '#') break;
    ++tag;
  } while (true);
  const char kind = source_[tag + 1];
  const char sign = byte(tag + 2) == '-' || byte(tag + 2) == '+' ? byte(tag + 2) : '\0';
  const std::size_t begin = tag + (sign == '\0' ? 2 : 3);
  data(tag, sign, kind == '{');
  if (kind == '#') {
    pass(begin);
    return comment();
  }
  if (kind == '%') {
    const std::size_t name = behind_space(begin);
    if (is_at("raw", name)) {
      const std::size_t close = behind_space(name + 3);
      if (is_at("%}", close)) return raw(close + 2);
      if (is_at("-%}", close)) return raw(behind_space(close + 3));
    }
  }
  add(kind == '{' ? TemplateTokenKind::output_begin : TemplateTokenKind::block_begin, {});
  pass(begin);
  inside(kind == '{');
}

/// Where a tag that ends with `close` is over; `sign_at`: at its sign, or at `close` itself.
std::size_t Lexer::end_behind(std::size_t sign_at, std::string_view close, bool trims_line) const {
  const char sign = source_[sign_at];
  if (sign == '-') return behind_space(sign_at + 1 + close.size());
  if (sign == '+') return sign_at + 1 + close.size();
  const std::size_t end = sign_at + close.size();
  return trims_line && byte(end) == '\n' ? end + 1 : end;
}

void Lexer::comment() {
  if (at_ == source_.size()) return;  // which Jinja does not mind
  const std::size_t close = source_.find("#}", at_);
  if (close == std::string_view::npos) fail("a comment is not closed");
  const bool has_sign = close > at_ && (source_[close - 1] == '-' || source_[close - 1] == '+');
  pass(end_behind(has_sign ? close - 1 : close, "#}", true));
}

void Lexer::raw(std::size_t begin) {
  pass(begin);
  if (at_ == source_.size()) return;
  for (std::size_t tag = source_.find("{%", at_); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
    const char sign = byte(tag + 2) == '-' || byte(tag + 2) == '+' ? byte(tag + 2) : '\0';
    const std::size_t name = behind_space(tag + (sign == '\0' ? 2 : 3));
    if (!is_at("endraw", name)) continue;
    const std::size_t close = behind_space(name + 6);
    const bool has_sign = byte(close) == '-' || byte(close) == '+';
    if (!is_at("%}", has_sign ? close + 1 : close)) continue;
    data(tag, sign, false);
    return pass(end_behind(close, "%}", true));
  }
  fail("a raw block is not closed");
}

bool Lexer::tag_ends(bool output) {
  if (!open_.empty()) return false;
  const std::string_view close = output ? "}}" : "%}";
  const char sign = byte(at_);
  const bool has_sign = sign == '-' || (sign == '+' && !output);
  if (!is_at(close, has_sign ? at_ + 1 : at_)) return false;
  const std::size_t end = end_behind(at_, close, !output);
  add(output ? TemplateTokenKind::output_end : TemplateTokenKind::block_end, source_.substr(at_, 0));
  pass(end);
  return true;
}

void Lexer::inside(bool output) {
  while (at_ < source_.size()) {
    if (tag_ends(output)) return;
    const std::size_t behind = behind_space(at_);
    if (behind > at_) {
      pass(behind);
    } else {
      word();
    }
  }
}

void Lexer::word() {
  const char c = source_[at_];
  if (is_digit(c)) return number();
  if (c == '\'' || c == '"') return text();
  if (is_word(c)) {
    std::size_t end = at_;
    while (is_word(byte(end))) ++end;
    if (static_cast<unsigned char>(byte(end)) >= 0x80) fail("a name with non-ASCII characters is not supported");
    add(TemplateTokenKind::name, source_.substr(at_, end - at_));
    return pass(end);
  }
  if (static_cast<unsigned char>(c) >= 0x80) fail("a name with non-ASCII characters is not supported");
  operation();
}

void Lexer::operation() {
  constexpr std::array<std::string_view, 6> doubled{"//", "**", "==", "!=", ">=", "<="};
  std::string_view found = source_.substr(at_, 2);
  if (std::ranges::find(doubled, found) == doubled.end()) found = source_.substr(at_, 1);
  if (found.size() == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(found) == std::string_view::npos)
    fail(fmt::format("unexpected character '{}' in a tag", found));
  const char c = found.front();
  if (c == '(') open_.push_back(')');
  if (c == '[') open_.push_back(']');
  if (c == '{') open_.push_back('}');
  if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) fail(fmt::format("unexpected '{}'", c));
    if (open_.back() != c) fail(fmt::format("unexpected '{}' where '{}' is expected", c, open_.back()));
    open_.pop_back();
  }
  add(TemplateTokenKind::sign, found);
  pass(at_ + found.size());
}

void Lexer::number() {
  // Digits, of which single underscores may stand between two.
  const auto digits = [&](std::size_t at, int base) {
    while (digit_value(byte(at)) < base || (byte(at) == '_' && digit_value(byte(at + 1)) < base)) ++at;
    return at;
  };
  const auto exponent = [&](std::size_t at) {
    if (byte(at) != 'e' && byte(at) != 'E') return at;
    const std::size_t first = byte(at + 1) == '+' || byte(at + 1) == '-' ? at + 2 : at + 1;
    return is_digit(byte(first)) ? digits(first, 10) : at;
  };
  std::size_t end = digits(at_, 10);
  const std::size_t whole = end;
  if (byte(end) == '.' && is_digit(byte(end + 1))) end = digits(end + 1, 10);
  end = exponent(end);
  const bool after_point = at_ > 0 && source_[at_ - 1] == '.';
  const auto plain = [&](std::size_t begin, std::size_t stop) {
    std::string text(source_.substr(begin, stop - begin));
    std::erase(text, '_');
    return text;
  };
  if (end > whole && !after_point) {
    const std::string text = plain(at_, end);
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc()) fail(fmt::format("the number {} does not fit a float", text));
    add(TemplateTokenKind::number, {}).number = value;
    return pass(end);
  }
  int base = 10;
  std::size_t begin = at_;
  if (source_[at_] == '0') {
    const char letter = static_cast<char>(byte(at_ + 1) | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    const std::size_t first = byte(at_ + 2) == '_' ? at_ + 3 : at_ + 2;
    if (base != 10 && digit_value(byte(first)) < base) {
      begin = first;
      end = digits(first, base);
    } else {
      base = 10;
      end = at_;
      while (byte(end) == '0' || (byte(end) == '_' && byte(end + 1) == '0')) ++end;
    }
  } else {
    end = whole;
  }
  const std::string text = plain(begin, end);
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (read.ec != std::errc()) fail(fmt::format("the integer {} does not fit 64 bits", text));
  add(TemplateTokenKind::integer, {}).integer = value;
  pass(end);
}

/// What stands behind a backslash at `at`, which moves behind it, as Python's strings have it.
void Lexer::escape(std::string& out, std::string_view body, std::size_t& at) const {
  const char c = body[at];
  const auto number = [&](std::size_t first, std::size_t most, int base) {
    char32_t value = 0;
    std::size_t i = first;
    while (i < body.size() && i < first + most && digit_value(body[i]) < base)
      value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(body[i++]));
    at = i;
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail(fmt::format("the escape \\{} is not a character", body.substr(first - 1, i - first + 1)));
    append_point(out, value);
    return i - first;
  };
  constexpr std::string_view letters = "abfnrtv\\'\"";
  constexpr std::string_view meant = "\a\b\f\n\r\t\v\\'\"";
  if (const std::size_t letter = letters.find(c); letter != std::string_view::npos) {
    out.push_back(meant[letter]);
    ++at;
  } else if (c == '\n') {
    ++at;
  } else if (c >= '0' && c <= '7') {
    number(at, 3, 8);
  } else if (c == 'x' || c == 'u' || c == 'U') {
    const std::size_t wanted = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    if (number(at + 1, wanted, 16) != wanted) fail(fmt::format("the escape \\{} lacks digits", c));
  } else if (c == 'N') {
    fail("the escape \\N{…} of a character's name is not supported");
  } else {
    // Python keeps the backslash; of what is beyond ASCII it has made an escape by then, which stays one.
    const std::size_t begin = at;
    const char32_t point = next_point(body, at);
    out.push_back('\\');
    if (point < 0x80) {
      out.append(body.substr(begin, at - begin));
    } else if (point < 0x100) {
      out.append(fmt::format("x{:02x}", static_cast<unsigned>(point)));
    } else {
      out.append(point < 0x10000 ? fmt::format("u{:04x}", static_cast<unsigned>(point))
                                 : fmt::format("U{:08x}", static_cast<unsigned>(point)));
    }
  }
}

void Lexer::text() {
  const char quote = source_[at_];
  std::size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) fail("a quoted string is not closed");
  const std::string_view body = source_.substr(at_ + 1, end - at_ - 1);
  std::string out;
  for (std::size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      out.push_back(body[at++]);
      continue;
    }
    ++at;
    escape(out, body, at);
  }
  add(TemplateTokenKind::text, {}).text = std::move(out);
  pass(end + 1);
}

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace lockstep::jinja
