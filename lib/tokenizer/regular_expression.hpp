// Regular expressions of tokenizer.json, matched by PCRE2. The tokenizers library uses Oniguruma with a newer Unicode:
// syntax that PCRE2 reads differently is rewritten, or refused by name.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// A compiled expression, which threads may share.
class RegularExpression {
 public:
  /// Throws Error(usage), beginning with `where`, for an expression that is malformed or not supported.
  RegularExpression(const std::string& expression, const std::string& where);

  /// The expression that matches one grapheme: a character as its reader perceives it.
  static RegularExpression grapheme();

  /// Calls `found` with begin and end of each match, from left to right; matches may be empty. Throws Error(input) if
  /// matching takes too long.
  void for_each(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const;

 private:
  RegularExpression() = default;
  void compile(const std::string& translated, const std::string& where);

  std::string expression_;
  std::shared_ptr<void> code_;
};

}  // namespace lockstep
