// The sequence of tokens that a parser of templates reads.
#pragma once

#include "jinja/template_lexer.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::jinja {

class TemplateTokens {
 public:
  explicit TemplateTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  int line() const { return current().line; }

  bool is(TemplateTokenKind kind) const { return current().kind == kind; }
  bool is_sign(std::string_view sign) const { return is(TemplateTokenKind::sign) && current().source == sign; }
  bool is_name(std::string_view name) const { return is(TemplateTokenKind::name) && current().source == name; }
  bool is_any_name(std::initializer_list<std::string_view> names) const;

  bool skip_sign(std::string_view sign);
  bool skip_name(std::string_view name);
  void expect(TemplateTokenKind kind);
  void expect_sign(std::string_view sign);
  void expect_name(std::string_view name);
  std::string take_name();

  [[noreturn]] void fail(const std::string& message) const { throw TemplateSyntaxFault(line(), message); }
  /// Describes the current token for messages: "'x'", "the end of the template".
  std::string described() const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::jinja
