#include "jinja/template_parser.hpp"

#include "jinja/template_expression_parser.hpp"
#include "jinja/template_scopes.hpp"
#include "jinja/template_unknown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace lockstep::jinja {

namespace {

using StatementPointer = std::unique_ptr<Statement>;
constexpr int deepest_blocks = 100;

StatementPointer make(StatementKind kind, int line) {
  return std::make_unique<Statement>(Statement{.kind = kind, .line = line});
}

/// In what a statement stands that text is put aside for: there a mark of what is generated has no place in the whole.
enum class Output : std::uint8_t { whole, aside };

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Body whole() {
    Body body = statements({});
    if (!tokens_.is(TemplateTokenKind::end))
      tokens_.fail(fmt::format("{} where text or a tag is expected", tokens_.described()));
    return body;
  }
  bool marks_generation() const { return marks_generation_; }

 private:
  using Names = std::initializer_list<std::string_view>;

  Body statements(Names ends);
  /// The statements of a block up to one of `ends`, which is the current token then.
  Body block(Names ends);
  Body whole_block(std::string_view end) {
    Body body = block({end});
    tokens_.take();
    return body;
  }
  StatementPointer statement();
  StatementPointer set(int line);
  StatementPointer loop(int line);
  StatementPointer conditional(int line);
  StatementPointer with(int line);
  StatementPointer macro(int line);
  StatementPointer call_block(int line);
  StatementPointer filter_block(int line);
  StatementPointer generation(int line);
  StatementPointer print(int line);
  StatementPointer jump(StatementKind kind, int line);
  void signature(MacroSyntax& macro);
  /// Goes through a body that is put aside, or that no loop around it can be left from.
  template <class Parse>
  auto apart(Output output, Parse parse) {
    const int loops = std::exchange(loops_, 0);
    const Output before = output_;
    if (output == Output::aside) output_ = Output::aside;
    auto body = parse();
    output_ = before;
    loops_ = loops;
    return body;
  }

  TemplateTokens tokens_;
  ExpressionParser expressions_;
  bool marks_generation_ = false;
  Output output_ = Output::whole;
  int loops_ = 0;
  int depth_ = 0;
};

Body Parser::statements(Names ends) {
  if (++depth_ > deepest_blocks) tokens_.fail(fmt::format("blocks are nested deeper than {} levels", deepest_blocks));
  Body body;
  const auto put_out = [&](ExpressionPointer expression) {
    if (body.empty() || body.back()->kind != StatementKind::output)
      body.push_back(make(StatementKind::output, expression->line));
    body.back()->expressions.push_back(std::move(expression));
  };
  while (!tokens_.is(TemplateTokenKind::end)) {
    if (tokens_.is(TemplateTokenKind::data)) {
      const Token& data = tokens_.take();
      auto text = std::make_unique<Expression>(Expression{.kind = ExpressionKind::constant, .line = data.line});
      text->value = Value::of(data.source);
      put_out(std::move(text));
    } else if (tokens_.is(TemplateTokenKind::output_begin)) {
      tokens_.take();
      put_out(expressions_.tuple());
      tokens_.expect(TemplateTokenKind::output_end);
    } else {
      tokens_.expect(TemplateTokenKind::block_begin);
      if (tokens_.is_any_name(ends)) {
        --depth_;
        return body;
      }
      body.push_back(statement());
      tokens_.expect(TemplateTokenKind::block_end);
    }
  }
  if (ends.size() > 0) tokens_.fail(fmt::format("the template ends where {} is expected", fmt::join(ends, " or ")));
  --depth_;
  return body;
}

Body Parser::block(Names ends) {
  tokens_.skip_sign(":");
  tokens_.expect(TemplateTokenKind::block_end);
  return statements(ends);
}

StatementPointer Parser::statement() {
  const int line = tokens_.line();
  if (!tokens_.is(TemplateTokenKind::name))
    tokens_.fail(fmt::format("{} where the name of a statement is expected", tokens_.described()));
  const std::string name = tokens_.take_name();
  if (name == "set") return set(line);
  if (name == "for") return loop(line);
  if (name == "if") return conditional(line);
  if (name == "with") return with(line);
  if (name == "macro") return macro(line);
  if (name == "call") return call_block(line);
  if (name == "filter") return filter_block(line);
  if (name == "generation") return generation(line);
  if (name == "print") return print(line);
  if (name == "break") return jump(StatementKind::stop, line);
  if (name == "continue") return jump(StatementKind::next, line);
  throw TemplateSyntaxFault(line, fmt::format("the statement '{}' is not supported{}", name,
                                              name.starts_with("end") || name == "else" || name == "elif"
                                                  ? " here: there is no open block that it belongs to"
                                                  : ""));
}

StatementPointer Parser::set(int line) {
  StatementPointer node = make(StatementKind::assignment, line);
  node->target = expressions_.target(ExpressionParser::Namespaces::with);
  if (tokens_.skip_sign("=")) {
    node->expressions.push_back(expressions_.tuple());
    return node;
  }
  node->kind = StatementKind::block_assignment;
  ExpressionPointer filter = expressions_.filters({});
  if (filter) node->expressions.push_back(std::move(filter));
  node->body = apart(Output::aside, [&] { return whole_block("endset"); });
  return node;
}

StatementPointer Parser::loop(int line) {
  StatementPointer node = make(StatementKind::loop, line);
  node->target = expressions_.target(ExpressionParser::Namespaces::without, {"in"});
  tokens_.expect_name("in");
  node->expressions.push_back(expressions_.tuple(ExpressionParser::Conditionals::without, {"recursive"}));
  if (tokens_.skip_name("if")) node->test = expressions_.expression();
  if (tokens_.is_name("recursive")) tokens_.fail("a recursive for is not supported");
  ++loops_;
  node->body = block({"endfor", "else"});
  --loops_;
  if (tokens_.take().source == "else") node->otherwise = whole_block("endfor");
  return node;
}

StatementPointer Parser::conditional(int line) {
  StatementPointer first = make(StatementKind::conditional, line);
  Statement* node = first.get();
  while (true) {
    node->expressions.push_back(expressions_.tuple(ExpressionParser::Conditionals::without));
    node->body = block({"elif", "else", "endif"});
    const Token& end = tokens_.take();
    if (end.source == "endif") return first;
    if (end.source == "else") {
      first->otherwise = whole_block("endif");
      return first;
    }
    if (first->branches.size() > 1000) tokens_.fail("more than 1000 elif in one if");
    first->branches.push_back(make(StatementKind::conditional, end.line));
    node = first->branches.back().get();
  }
}

StatementPointer Parser::with(int line) {
  StatementPointer node = make(StatementKind::with, line);
  while (!tokens_.is(TemplateTokenKind::block_end)) {
    if (!node->targets.empty()) tokens_.expect_sign(",");
    node->targets.push_back(expressions_.target(ExpressionParser::Namespaces::without));
    tokens_.expect_sign("=");
    node->expressions.push_back(expressions_.expression());
  }
  node->body = whole_block("endwith");
  return node;
}

void Parser::signature(MacroSyntax& macro) {
  tokens_.expect_sign("(");
  while (!tokens_.is_sign(")")) {
    if (!macro.parameters.empty()) tokens_.expect_sign(",");
    std::string name = tokens_.take_name();
    if (std::ranges::find(macro.parameters, name) != macro.parameters.end())
      tokens_.fail(fmt::format("the parameter {} appears twice", name));
    macro.parameters.push_back(std::move(name));
    if (tokens_.skip_sign("=")) {
      macro.defaults.push_back(expressions_.expression());
    } else if (!macro.defaults.empty()) {
      tokens_.fail("a parameter without a default follows one with a default");
    }
  }
  tokens_.expect_sign(")");
}

StatementPointer Parser::macro(int line) {
  StatementPointer node = make(StatementKind::macro, line);
  node->macro = std::make_unique<MacroSyntax>();
  node->macro->name = tokens_.take_name();
  signature(*node->macro);
  node->body = apart(Output::aside, [&] { return whole_block("endmacro"); });
  return node;
}

StatementPointer Parser::call_block(int line) {
  StatementPointer node = make(StatementKind::call, line);
  node->macro = std::make_unique<MacroSyntax>();
  if (tokens_.is_sign("(")) signature(*node->macro);
  node->expressions.push_back(expressions_.expression());
  if (node->expressions.front()->kind != ExpressionKind::call)
    throw TemplateSyntaxFault(line, "a call block needs a call");
  node->body = apart(Output::aside, [&] { return whole_block("endcall"); });
  return node;
}

StatementPointer Parser::filter_block(int line) {
  StatementPointer node = make(StatementKind::filter, line);
  node->expressions.push_back(expressions_.filters({}, ExpressionParser::FirstFilter::here));
  // A loop can be left from here, but then the filter never sees what was put out: such a template is refused.
  node->body = apart(Output::aside, [&] { return whole_block("endfilter"); });
  return node;
}

StatementPointer Parser::generation(int line) {
  if (output_ == Output::aside)
    throw TemplateSyntaxFault(
        line,
        "a generation block inside of a macro, a set or filter block or another generation block is not supported: "
        "the position of its text is not known");
  StatementPointer node = make(StatementKind::generation, line);
  marks_generation_ = true;
  node->body = apart(Output::aside, [&] { return whole_block("endgeneration"); });
  return node;
}

StatementPointer Parser::print(int line) {
  StatementPointer node = make(StatementKind::output, line);
  while (!tokens_.is(TemplateTokenKind::block_end)) {
    if (!node->expressions.empty()) tokens_.expect_sign(",");
    node->expressions.push_back(expressions_.expression());
  }
  return node;
}

StatementPointer Parser::jump(StatementKind kind, int line) {
  if (loops_ == 0)
    throw TemplateSyntaxFault(
        line, "break or continue outside of a loop, or in a block that captures text, is not supported");
  return make(kind, line);
}

}  // namespace

SyntaxTree parse_template(std::string_view source) {
  SyntaxTree tree;
  tree.source = std::make_unique<std::string>(with_plain_lines(source));
  Parser parser(tokens_of(*tree.source));
  tree.body = parser.whole();
  tree.marks_generation = parser.marks_generation();
  refuse_unknown_builtins(tree.body);
  resolve_names(tree);
  return tree;
}

}  // namespace lockstep::jinja
