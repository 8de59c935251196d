// Parses the expressions in a template's tags. Statements: jinja/template_parser.hpp.
#pragma once

#include "jinja/template_syntax.hpp"
#include "jinja/template_token_stream.hpp"

#include <initializer_list>
#include <string_view>

namespace lockstep::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TemplateTokens& tokens) : tokens_(tokens) {}

  enum class Conditionals : std::uint8_t { with, without };

  ExpressionPointer expression(Conditionals conditionals = Conditionals::with);
  /// Parses one expression, or several with commas between, which form a tuple. A name of `ends` ends it, as do the end
  /// of the tag and ")".
  ExpressionPointer tuple(Conditionals conditionals = Conditionals::with,
                          std::initializer_list<std::string_view> ends = {});
  /// Parses the target of an assignment: a name, a tuple of names, or, with `namespaces`, an attribute of a namespace.
  enum class Namespaces : std::uint8_t { with, without };
  ExpressionPointer target(Namespaces namespaces, std::initializer_list<std::string_view> ends = {});
  /// Parses filters that apply to `first`, which is missing for a filter block. FirstFilter::here: no | stands before
  /// the first filter.
  enum class FirstFilter : std::uint8_t { behind_sign, here };
  ExpressionPointer filters(ExpressionPointer first, FirstFilter begins = FirstFilter::behind_sign);

 private:
  class Nested;
  enum class Parentheses : std::uint8_t { given, none };
  enum class Filters : std::uint8_t { with, without };

  bool tuple_ends(std::initializer_list<std::string_view> ends) const;
  template <class Parse>
  ExpressionPointer tuple_of(Parse parse, Parentheses parentheses, std::initializer_list<std::string_view> ends);
  ExpressionPointer conditional();
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(Filters filters);
  ExpressionPointer primary(Namespaces namespaces);
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer postfix(ExpressionPointer node);
  ExpressionPointer filters_and_tests(ExpressionPointer node);
  ExpressionPointer subscript(ExpressionPointer node);
  ExpressionPointer call(ExpressionPointer callee);
  CallSyntax arguments();
  ExpressionPointer test(ExpressionPointer node);

  TemplateTokens& tokens_;
  int depth_ = 0;
};

}  // namespace lockstep::jinja
