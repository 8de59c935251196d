#include "exchange/hf_keys.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

#include <cmath>

namespace lockstep {

HfKeys::HfKeys(const Json& document, std::string origin) : document_(document), origin_(std::move(origin)) {}

const Json* HfKeys::find(std::string_view key) const {
  const auto found = document_.find(std::string(key));
  return found == document_.end() || found->is_null() ? nullptr : &*found;
}

bool HfKeys::is_null(std::string_view key) const {
  const auto found = document_.find(std::string(key));
  return found != document_.end() && found->is_null();
}

std::optional<std::int64_t> HfKeys::integer(const std::vector<std::string>& spellings, std::int64_t least,
                                            std::int64_t most) {
  const Json* value = nullptr;
  std::string key = spellings.front();
  for (const std::string& spelling : spellings) {
    const Json* const other = find(spelling);
    if (other == nullptr) continue;
    if (value != nullptr && *value != *other)
      malformed(spelling, fmt::format("is {}, but {} is {}", excerpt(*other), key, excerpt(*value)));
    if (value == nullptr) {
      value = other;
      key = spelling;
    }
  }
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned() ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                : value->is_number_integer();
  if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    malformed(key, fmt::format("is {}, not an integer from {} to {}", excerpt(*value), least, most));
    return std::nullopt;
  }
  return value->get<std::int64_t>();
}

std::int64_t HfKeys::required_integer(const std::vector<std::string>& spellings, std::int64_t least,
                                      std::int64_t most) {
  bool present = false;
  for (const std::string& spelling : spellings) present = present || find(spelling) != nullptr;
  if (!present) malformed(spellings.front(), "is missing");
  return integer(spellings, least, most).value_or(least);
}

double HfKeys::number(std::string_view key, double otherwise, double least, double most) {
  const Json* const value = find(key);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    malformed(key, fmt::format("is {}, not a number from {} to {}", excerpt(*value), least, most));
    return otherwise;
  }
  return number;
}

bool HfKeys::boolean(std::string_view key, bool otherwise) {
  const Json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  malformed(key, fmt::format("is {}, not true or false", excerpt(*value)));
  return otherwise;
}

std::string HfKeys::string(std::string_view key, std::string otherwise) {
  const Json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  malformed(key, fmt::format("is {}, not a string", excerpt(*value)));
  return otherwise;
}

void HfKeys::malformed(std::string_view key, const std::string& what) {
  problems_.push_back(fmt::format("{} {}", key, what));
  code_ = ExitCode::input;
}

void HfKeys::unsupported(std::string_view key, const std::string& what) {
  problems_.push_back(fmt::format("{} {}", key, what));
}

void HfKeys::take(std::string_view key, const HfKeys& map) {
  for (const std::string& problem : map.problems_) problems_.push_back(fmt::format("{}.{}", key, problem));
  if (map.code_ == ExitCode::input) code_ = ExitCode::input;
}

void HfKeys::raise(const std::string& hint) const {
  if (problems_.empty()) return;
  const std::string_view tried = "cannot use it as a model's configuration";
  if (problems_.size() == 1) throw Error(code_, fmt::format("{}: {}: {}", origin_, tried, problems_.front()), hint);
  throw Error(code_,
              fmt::format("{}: {}, {} problems:\n  {}", origin_, tried, problems_.size(), join(problems_, "\n  ")),
              hint);
}

std::string excerpt(const Json& value) {
  constexpr std::size_t longest = 40;
  if (value.is_structured() && value.size() > longest) return value.is_array() ? "[…]" : "{…}";
  std::string text = to_text(value);
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "…";
}

}  // namespace lockstep
