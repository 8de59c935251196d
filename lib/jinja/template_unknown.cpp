#include "jinja/template_unknown.hpp"

#include "jinja/template_builtins.hpp"
#include "jinja/template_lexer.hpp"

#include <fmt/format.h>

namespace lockstep::jinja {

namespace {

/// When an unknown name is refused, where the walk is.
enum class Refused { as_compiled, as_reached };

void check(const ExpressionPointer& expression, Refused refused);

void check(const std::vector<ExpressionPointer>& expressions, Refused refused) {
  for (const ExpressionPointer& expression : expressions) check(expression, refused);
}

void check(const CallSyntax& call, Refused refused) {
  check(call.positional, refused);
  for (const auto& [name, value] : call.named) check(value, refused);
  check(call.more_positional, refused);
  check(call.more_named, refused);
}

void check(const ExpressionPointer& expression, Refused refused) {
  if (!expression) return;
  const Expression& node = *expression;
  const bool names = node.kind == ExpressionKind::filter || node.kind == ExpressionKind::test;
  if (names && node.builtin < 0 && refused == Refused::as_compiled && !is_unsupported_builtin(node.text))
    throw TemplateSyntaxFault(
        node.line, fmt::format("the {} '{}' is not supported", node.kind == ExpressionKind::filter ? "filter" : "test",
                               node.text));
  if (node.kind == ExpressionKind::conditional) refused = Refused::as_reached;
  check(node.operands, refused);
  check(node.call, refused);
}

void check(const Body& body, Refused refused);

void check(const Statement& node, Refused refused) {
  // Blocks with variables of their own are compiled as if no condition were around them.
  const Refused inside = Refused::as_compiled;
  switch (node.kind) {
    case StatementKind::output:
    case StatementKind::assignment:
    case StatementKind::stop:
    case StatementKind::next: check(node.expressions, refused); return;
    case StatementKind::conditional:
      check(node.expressions, Refused::as_reached);
      check(node.body, Refused::as_reached);
      check(node.branches, Refused::as_reached);
      check(node.otherwise, Refused::as_reached);
      return;
    case StatementKind::loop:
      check(node.expressions, refused);
      check(node.test, inside);
      check(node.body, inside);
      check(node.otherwise, inside);
      return;
    case StatementKind::block_assignment:
    case StatementKind::filter: check(node.expressions, inside); break;
    case StatementKind::macro: check(node.macro->defaults, inside); break;
    case StatementKind::call: check(node.macro->defaults, inside); [[fallthrough]];
    case StatementKind::with: check(node.expressions, refused); break;
    case StatementKind::generation: break;
  }
  check(node.body, inside);
}

void check(const Body& body, Refused refused) {
  for (const auto& statement : body) check(*statement, refused);
}

}  // namespace

void refuse_unknown_builtins(const Body& body) { check(body, Refused::as_compiled); }

}  // namespace lockstep::jinja
