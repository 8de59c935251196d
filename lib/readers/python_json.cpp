#include "readers/python_json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <system_error>

namespace lockstep {

namespace {

// The only member of the object that stands for a number; no file has such a name.
constexpr std::string_view member_name = "\x15lockstep number";
constexpr std::string_view object_begin = R"({"\u0015lockstep number":")", object_end = R"("})";

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

bool belongs_to_word(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '+' || byte == '-' ||
         byte == '.';
}

/// Whether the word is a number as RFC 8259 spells it.
bool is_number(std::string_view word) {
  std::size_t at = word.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < word.size() && is_digit(word[at])) ++at;
    return at - begin;
  };
  const bool leads_with_zero = at < word.size() && word[at] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (leads_with_zero && whole > 1)) return false;
  if (at < word.size() && word[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == word.size();
}

template <class Integer>
bool fits(std::string_view word) {
  Integer value = 0;
  return std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc();
}

bool is_odd_number(std::string_view word) {
  if (word == "NaN" || word == "Infinity" || word == "-Infinity") return true;
  if (!is_number(word)) return false;
  if (is_odd_integer(word)) return !fits<std::int64_t>(word) && !fits<std::uint64_t>(word);
  return std::isinf(std::strtod(std::string(word).c_str(), nullptr));
}

/// Puts `json` into `rewritten` with an object in place of each odd number. False if it has none.
bool rewrite(std::string_view json, std::string& rewritten) {
  rewritten.clear();
  std::size_t done = 0;
  for (std::size_t at = 0; at < json.size();) {
    if (json[at] == '"') {
      for (++at; at < json.size() && json[at] != '"'; ++at)
        if (json[at] == '\\') ++at;
      ++at;
      continue;
    }
    const auto rest = json.substr(at);
    const auto size = static_cast<std::size_t>(std::ranges::find_if_not(rest, belongs_to_word) - rest.begin());
    if (const std::string_view word = rest.substr(0, size); is_odd_number(word)) {
      rewritten.append(json, done, at - done).append(object_begin).append(word).append(object_end);
      done = at + size;
    }
    at += std::max<std::size_t>(size, 1);
  }
  if (done == 0) return false;
  rewritten.append(json, done);
  return true;
}

}  // namespace

simdjson::error_code PythonJsonParser::parse(std::string_view text, Padding padding, simdjson::dom::element& value) {
  const auto error = parser_.parse(text.data(), text.size(), padding == Padding::absent).get(value);
  if (error == simdjson::SUCCESS || error == simdjson::UTF8_ERROR || !rewrite(text, rewritten_)) return error;
  return parser_.parse(rewritten_.data(), rewritten_.size(), true).get(value);
}

void PythonJsonParser::shrink(std::size_t most_bytes) {
  if (parser_.capacity() > most_bytes) parser_ = simdjson::dom::parser();
  if (rewritten_.capacity() > most_bytes) rewritten_ = std::string();
}

std::optional<std::string_view> unrepresentable_number(const simdjson::dom::element& value) {
  simdjson::dom::object object;
  std::string_view number;
  if (value.get(object) != simdjson::SUCCESS || object.size() != 1) return std::nullopt;
  const auto member = *object.begin();
  if (member.key != member_name || member.value.get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

bool is_odd_integer(std::string_view number) {
  return number.find_first_not_of("-0123456789") == std::string_view::npos;
}

}  // namespace lockstep
