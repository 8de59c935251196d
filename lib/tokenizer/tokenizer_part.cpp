#include "tokenizer/tokenizer_part.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>

namespace lockstep {

namespace {
constexpr const char* what_is_supported = "prepare-data(1) lists the supported ones";
}

TokenizerPart::TokenizerPart(const Json& part, std::string where) : part_(&part), where_(std::move(where)) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
    fail(ExitCode::input, "{} is not an object with a type", where_);
  type_ = part["type"].get<std::string>();
  where_ += " \"" + type_ + "\"";
}

void TokenizerPart::require_only(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : part_->items()) {
    if (key != "type" && std::ranges::find(known, key) == known.end())
      throw Error(ExitCode::usage, fmt::format("{}: the key '{}' is not supported", where_, key), what_is_supported);
  }
}

void TokenizerPart::refuse() const {
  throw Error(ExitCode::usage, fmt::format("{} is not supported", where_), what_is_supported);
}

void TokenizerPart::refuse(std::string_view key) const {
  throw Error(ExitCode::usage, fmt::format("{}: {} = {} is not supported", where_, key, to_text(value(key))),
              what_is_supported);
}

void TokenizerPart::malformed(std::string_view key, std::string_view wanted) const {
  fail(ExitCode::input, "{}: {} is not {}", where_, key, wanted);
}

const Json& TokenizerPart::value(std::string_view key) const {
  static const Json nothing;
  const auto found = part_->find(std::string(key));
  return found == part_->end() ? nothing : *found;
}

std::string TokenizerPart::text(std::string_view key) const {
  const Json& found = value(key);
  if (!found.is_string()) malformed(key, "a string");
  return found.get<std::string>();
}

std::string TokenizerPart::text(std::string_view key, std::string_view otherwise) const {
  return value(key).is_null() ? std::string(otherwise) : text(key);
}

bool TokenizerPart::flag(std::string_view key) const {
  const Json& found = value(key);
  if (!found.is_boolean()) malformed(key, "true or false");
  return found.get<bool>();
}

bool TokenizerPart::flag(std::string_view key, bool otherwise) const {
  return value(key).is_null() ? otherwise : flag(key);
}

std::size_t TokenizerPart::count(std::string_view key) const {
  const Json& found = value(key);
  if (!found.is_number_unsigned()) malformed(key, "a non-negative integer");
  return found.get<std::size_t>();
}

char32_t TokenizerPart::character(std::string_view key) const {
  const std::string found = text(key);
  std::size_t behind = 0;
  const char32_t c = found.empty() ? 0 : next_code_point(found, behind);
  if (behind == 0 || behind != found.size()) malformed(key, "one character");
  return c;
}

std::vector<TokenizerPart> TokenizerPart::parts(std::string_view key) const {
  const Json& list = value(key);
  if (!list.is_array()) malformed(key, "a list");
  std::vector<TokenizerPart> parts;
  for (const Json& part : list) parts.emplace_back(part, where_ + ": " + std::string(key));
  return parts;
}

TokenizerPart::Pattern TokenizerPart::pattern() const {
  const Json& found = value("pattern");
  if (found.is_object() && found.size() == 1 && found.begin().value().is_string()) {
    const std::string text = found.begin().value().get<std::string>();
    if (found.begin().key() == "String") return {false, text};
    if (found.begin().key() == "Regex") return {true, text};
  }
  malformed("pattern", "{\"String\": …} or {\"Regex\": …}");
}

}  // namespace lockstep
