#include "options/name_pattern.hpp"

#include "base/error.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

namespace lockstep {

struct NamePattern::Compiled {
  pcre2_code* regex = nullptr;
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);

  explicit Compiled(const std::string& text) {
    constexpr std::size_t longest = 4096;
    constexpr std::uint32_t most_steps = 1'000'000;  // of a search: nested repeats would take for ever
    if (limits == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(limits, most_steps);
    int error = PCRE2_ERROR_HEAPLIMIT;
    PCRE2_SIZE place = 0;
    if (text.size() <= longest) {
      regex = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                            PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
    }
    if (regex == nullptr) {
      pcre2_match_context_free(limits);
      fail(ExitCode::usage, "\"{}\" is not a regular expression: {}", shortened(text),
           text.size() > longest ? "it is too long" : reason_of(error, place));
    }
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_code_free(regex);
    pcre2_match_context_free(limits);
  }

 private:
  static std::string shortened(const std::string& text) {
    return text.size() <= 100 ? text : text.substr(0, 100) + "...";
  }
  static std::string reason_of(int error, std::size_t place) {
    std::string text(160, '\0');
    const int length = pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
    text.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
    return fmt::format("{}, at character {}", text, place + 1);
  }
};

std::string NamePattern::form() { return "REGEX"; }

NamePattern NamePattern::parse(const std::string& text) {
  NamePattern pattern;
  pattern.text_ = text;
  pattern.compiled_ = std::make_shared<const Compiled>(text);
  return pattern;
}

bool NamePattern::matches(std::string_view name) const {
  if (!compiled_) return false;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create(1, nullptr),
                                                                                  &pcre2_match_data_free);
  if (!match) throw std::bad_alloc();
  const int found = pcre2_match(compiled_->regex, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                                match.get(), compiled_->limits);
  if (found < PCRE2_ERROR_NOMATCH)
    throw Error(ExitCode::usage, fmt::format("matching \"{}\" with {} takes too many steps", text_, name),
                "avoid nested repeats such as (a*)*");
  return found >= 0;
}

}  // namespace lockstep
