// Regular expressions as option values, for names of tensors.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// NamePattern is a regular expression (PCRE2). It is searched anywhere in a tensor's name; "^…$" matches the whole
/// name.
class NamePattern {
 public:
  static std::string form();
  static NamePattern parse(const std::string& text);
  const std::string& text() const { return text_; }
  /// Returns whether the pattern occurs in `name`. A pattern that was not parsed matches nothing. Local. Throws
  /// Error(usage) if the search takes too many steps.
  bool matches(std::string_view name) const;
  bool operator==(const NamePattern& other) const { return text_ == other.text_; }

 private:
  struct Compiled;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace lockstep
