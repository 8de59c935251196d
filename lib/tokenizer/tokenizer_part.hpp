// Reads a part of a tokenizer.json (a normalizer, a pre-tokenizer, a decoder …) strictly: each member is requested with
// its type. A member that the code does not know is refused by name, since it may change ids.
#pragma once

#include "base/json_fwd.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns the most bytes that a part may make of a text. A part that makes more is an attack: the longest normal form
/// of a character has 11 times its bytes, and letters of bytes with a mark before each at most 6 times. Pure.
constexpr std::size_t most_made_of(std::string_view text) { return std::max(64 * text.size(), std::size_t{1} << 20); }

class TokenizerPart {
 public:
  /// `where` begins error messages: "FILE: normalizer". Throws Error(input) unless `part` is an object with a type.
  TokenizerPart(const Json& part, std::string where);

  const std::string& type() const { return type_; }
  /// The part and its type, for error messages.
  const std::string& where() const { return where_; }

  /// Refuses members besides these and "type". Throws Error(usage).
  void require_only(std::initializer_list<std::string_view> known) const;
  /// Throws Error(usage): a part of this type is not supported.
  [[noreturn]] void refuse() const;
  /// Throws Error(usage): this member's value is not supported.
  [[noreturn]] void refuse(std::string_view key) const;

  // Members of the part; `otherwise` if a member is absent or null. Throw Error(input) for another type.
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  bool flag(std::string_view key) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::size_t count(std::string_view key) const;
  char32_t character(std::string_view key) const;
  /// The value itself; null if it is absent.
  const Json& value(std::string_view key) const;
  /// The parts of a Sequence.
  std::vector<TokenizerPart> parts(std::string_view key) const;
  /// A pattern {"String": …} or {"Regex": …}: its kind and its text.
  struct Pattern {
    bool is_expression;
    std::string text;
  };
  Pattern pattern() const;

 private:
  [[noreturn]] void malformed(std::string_view key, std::string_view wanted) const;

  const Json* part_;
  std::string type_;
  std::string where_;
};

}  // namespace lockstep
