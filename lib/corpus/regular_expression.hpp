// Regular expressions as tokenizer.json states them, by PCRE2. What PCRE2 reads otherwise than the library that the
// tokenizers library uses (Oniguruma, of a newer Unicode) is written anew or refused by name.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Shared by threads.
class RegularExpression {
 public:
  /// Throws Error(usage), beginning with `where`, for an expression that is malformed or not supported.
  RegularExpression(const std::string& expression, const std::string& where);

  /// The one that matches what a reader takes for one character.
  static RegularExpression grapheme();

  /// Calls `found` with begin and end of each match, from left to right; it may be empty. Throws Error(input) if the
  /// expression takes too long for the text.
  void for_each(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const;

 private:
  RegularExpression() = default;
  void compile(const std::string& translated, const std::string& where);

  std::string expression_;
  std::shared_ptr<void> code_;
};

}  // namespace lockstep
