#include "jinja/template_expression_parser.hpp"

#include "jinja/template_builtins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::jinja {

namespace {

constexpr int deepest = 100;  // of expressions inside of expressions, of which each takes a dozen calls
constexpr int longest_chain = 600;

ExpressionPointer make(ExpressionKind kind, int line) {
  return std::make_unique<Expression>(Expression{.kind = kind, .line = line});
}

template <class... Operands>
ExpressionPointer make(ExpressionKind kind, int line, Operands... operands) {
  ExpressionPointer node = make(kind, line);
  (node->operands.push_back(std::move(operands)), ...);
  for (const ExpressionPointer& operand : node->operands) {
    if (operand) node->depth = std::max(node->depth, operand->depth + 1);
  }
  if (node->depth > longest_chain)
    throw TemplateSyntaxFault(line, fmt::format("more than {} operations in one chain", longest_chain));
  return node;
}

ExpressionPointer constant(Value value, int line) {
  ExpressionPointer node = make(ExpressionKind::constant, line);
  node->value = value;
  return node;
}

}  // namespace

class ExpressionParser::Nested {
 public:
  explicit Nested(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > deepest)
      parser_.tokens_.fail(fmt::format("expressions are nested deeper than {} levels", deepest));
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  ~Nested() { --parser_.depth_; }

 private:
  ExpressionParser& parser_;
};

ExpressionPointer ExpressionParser::expression(Conditionals conditionals) {
  const Nested nested(*this);
  return conditionals == Conditionals::with ? conditional() : disjunction();
}

bool ExpressionParser::tuple_ends(std::initializer_list<std::string_view> ends) const {
  return tokens_.is(TemplateTokenKind::output_end) || tokens_.is(TemplateTokenKind::block_end) ||
         tokens_.is_sign(")") || tokens_.is_any_name(ends);
}

template <class Parse>
ExpressionPointer ExpressionParser::tuple_of(Parse parse, Parentheses parentheses,
                                             std::initializer_list<std::string_view> ends) {
  std::vector<ExpressionPointer> items;
  const int line = tokens_.line();
  bool several = false;
  while (true) {
    if (!items.empty()) tokens_.expect_sign(",");
    if (tuple_ends(ends)) break;
    items.push_back(parse());
    if (!tokens_.is_sign(",")) break;
    several = true;
  }
  if (!several) {
    if (!items.empty()) return std::move(items.front());
    if (parentheses == Parentheses::none)
      tokens_.fail(fmt::format("{} where an expression is expected", tokens_.described()));
  }
  ExpressionPointer node = make(ExpressionKind::tuple, line);
  node->operands = std::move(items);
  return node;
}

ExpressionPointer ExpressionParser::tuple(Conditionals conditionals, std::initializer_list<std::string_view> ends) {
  return tuple_of([&] { return expression(conditionals); }, Parentheses::none, ends);
}

namespace {

void refuse_target(const Expression& node) {
  const bool names = node.kind == ExpressionKind::name || node.kind == ExpressionKind::attribute_target;
  if (!names && node.kind != ExpressionKind::tuple)
    throw TemplateSyntaxFault(node.line, "only names, tuples of names and attributes of namespaces can be assigned to");
  for (const ExpressionPointer& item : node.operands) refuse_target(*item);
}

}  // namespace

ExpressionPointer ExpressionParser::target(Namespaces namespaces, std::initializer_list<std::string_view> ends) {
  ExpressionPointer node = tuple_of([&] { return primary(namespaces); }, Parentheses::none, ends);
  refuse_target(*node);
  return node;
}

ExpressionPointer ExpressionParser::conditional() {
  int line = tokens_.line();
  ExpressionPointer node = disjunction();
  while (tokens_.skip_name("if")) {
    ExpressionPointer test = disjunction();
    ExpressionPointer otherwise;
    if (tokens_.skip_name("else")) {
      const Nested nested(*this);
      otherwise = conditional();
    }
    node = make(ExpressionKind::conditional, line, std::move(node), std::move(test), std::move(otherwise));
    line = tokens_.line();
  }
  return node;
}

ExpressionPointer ExpressionParser::disjunction() {
  ExpressionPointer node = conjunction();
  for (int line = tokens_.line(); tokens_.skip_name("or"); line = tokens_.line())
    node = make(ExpressionKind::disjunction, line, std::move(node), conjunction());
  return node;
}

ExpressionPointer ExpressionParser::conjunction() {
  ExpressionPointer node = negation();
  for (int line = tokens_.line(); tokens_.skip_name("and"); line = tokens_.line())
    node = make(ExpressionKind::conjunction, line, std::move(node), negation());
  return node;
}

ExpressionPointer ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const Nested nested(*this);
  const int line = tokens_.take().line;
  return make(ExpressionKind::negation, line, negation());
}

ExpressionPointer ExpressionParser::comparison() {
  const int line = tokens_.line();
  ExpressionPointer first = sum();
  ExpressionPointer node;
  const auto add = [&](Comparison comparison) {
    if (!node) node = make(ExpressionKind::comparison, line, std::move(first));
    node->comparisons.push_back(comparison);
    node->operands.push_back(sum());
  };
  constexpr std::pair<std::string_view, Comparison> signs[] = {
      {"==", Comparison::equal},         {"!=", Comparison::not_equal}, {"<", Comparison::less},
      {"<=", Comparison::less_or_equal}, {">", Comparison::greater},    {">=", Comparison::greater_or_equal}};
  while (true) {
    bool found = false;
    for (const auto& [sign, comparison] : signs) {
      if (!found && tokens_.skip_sign(sign)) {
        add(comparison);
        found = true;
      }
    }
    if (found) continue;
    if (tokens_.skip_name("in")) {
      add(Comparison::in);
    } else if (tokens_.is_name("not") && tokens_.following().kind == TemplateTokenKind::name &&
               tokens_.following().source == "in") {
      tokens_.take();
      tokens_.take();
      add(Comparison::not_in);
    } else {
      return node ? std::move(node) : std::move(first);
    }
  }
}

namespace {

ExpressionPointer binary(BinaryOperator kind, int line, ExpressionPointer left, ExpressionPointer right) {
  ExpressionPointer node = make(ExpressionKind::binary, line, std::move(left), std::move(right));
  node->binary = kind;
  return node;
}

}  // namespace

ExpressionPointer ExpressionParser::sum() {
  int line = tokens_.line();
  ExpressionPointer node = concatenation();
  while (tokens_.is_sign("+") || tokens_.is_sign("-")) {
    const BinaryOperator kind = tokens_.take().source == "+" ? BinaryOperator::add : BinaryOperator::subtract;
    node = binary(kind, line, std::move(node), concatenation());
    line = tokens_.line();
  }
  return node;
}

ExpressionPointer ExpressionParser::concatenation() {
  const int line = tokens_.line();
  ExpressionPointer node = product();
  if (!tokens_.is_sign("~")) return node;
  node = make(ExpressionKind::concatenation, line, std::move(node));
  while (tokens_.skip_sign("~")) node->operands.push_back(product());
  return node;
}

ExpressionPointer ExpressionParser::product() {
  constexpr std::pair<std::string_view, BinaryOperator> signs[] = {{"*", BinaryOperator::multiply},
                                                                   {"/", BinaryOperator::divide},
                                                                   {"//", BinaryOperator::floor_divide},
                                                                   {"%", BinaryOperator::modulo}};
  int line = tokens_.line();
  ExpressionPointer node = power();
  while (true) {
    const auto* const found =
        std::ranges::find_if(signs, [&](const auto& sign) { return tokens_.is_sign(sign.first); });
    if (found == std::end(signs)) return node;
    tokens_.take();
    node = binary(found->second, line, std::move(node), power());
    line = tokens_.line();
  }
}

namespace {

/// Whether Jinja works it out before the template runs.
bool is_constant(const Expression& node) {
  if (node.kind == ExpressionKind::name || node.kind == ExpressionKind::call) return false;
  return std::ranges::all_of(node.operands,
                             [](const ExpressionPointer& operand) { return !operand || is_constant(*operand); });
}

}  // namespace

ExpressionPointer ExpressionParser::power() {
  int line = tokens_.line();
  ExpressionPointer node = unary(Filters::with);
  while (tokens_.skip_sign("**")) {
    ExpressionPointer exponent = unary(Filters::with);
    // Jinja writes the base down as Python without parentheses, so that the sign of a negative one is applied last.
    if (node->kind != ExpressionKind::constant && is_constant(*node) && !is_constant(*exponent))
      throw TemplateSyntaxFault(line, "a computed number raised to a variable power is not supported");
    node = binary(BinaryOperator::power, line, std::move(node), std::move(exponent));
    line = tokens_.line();
  }
  return node;
}

ExpressionPointer ExpressionParser::unary(Filters filters) {
  const int line = tokens_.line();
  ExpressionPointer node;
  if (tokens_.is_sign("-") || tokens_.is_sign("+")) {
    const Nested nested(*this);
    const ExpressionKind kind = tokens_.take().source == "-" ? ExpressionKind::negative : ExpressionKind::positive;
    node = make(kind, line, unary(Filters::without));
  } else {
    node = primary(Namespaces::without);
  }
  node = postfix(std::move(node));
  return filters == Filters::with ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPointer ExpressionParser::primary(Namespaces namespaces) {
  const int line = tokens_.line();
  if (tokens_.is(TemplateTokenKind::name)) {
    std::string name(tokens_.take().source);
    if (name == "true" || name == "True") return constant(Value::of(true), line);
    if (name == "false" || name == "False") return constant(Value::of(false), line);
    if (name == "none" || name == "None") return constant(Value::none(), line);
    const bool attribute = namespaces == Namespaces::with && tokens_.skip_sign(".");
    ExpressionPointer node = make(attribute ? ExpressionKind::attribute_target : ExpressionKind::name, line);
    node->text = std::move(name);
    node->attribute = attribute ? tokens_.take_name() : fmt::format("'{}' is undefined", node->text);
    return node;
  }
  if (tokens_.is(TemplateTokenKind::text)) {
    ExpressionPointer node = make(ExpressionKind::constant, line);
    while (tokens_.is(TemplateTokenKind::text)) node->text += tokens_.take().text;
    node->value = Value::of(std::string_view(node->text));
    return node;
  }
  if (tokens_.is(TemplateTokenKind::integer)) return constant(Value::of(tokens_.take().integer), line);
  if (tokens_.is(TemplateTokenKind::number)) return constant(Value::of(tokens_.take().number), line);
  if (tokens_.skip_sign("(")) {
    ExpressionPointer node = tuple_of([&] { return expression(); }, Parentheses::given, {});
    tokens_.expect_sign(")");
    return node;
  }
  if (tokens_.is_sign("[")) return list();
  if (tokens_.is_sign("{")) return dict();
  tokens_.fail(fmt::format("{} where an expression is expected", tokens_.described()));
}

ExpressionPointer ExpressionParser::list() {
  ExpressionPointer node = make(ExpressionKind::list, tokens_.take().line);
  while (!tokens_.is_sign("]")) {
    if (!node->operands.empty()) tokens_.expect_sign(",");
    if (tokens_.is_sign("]")) break;
    node->operands.push_back(expression());
  }
  tokens_.expect_sign("]");
  return node;
}

ExpressionPointer ExpressionParser::dict() {
  ExpressionPointer node = make(ExpressionKind::dict, tokens_.take().line);
  while (!tokens_.is_sign("}")) {
    if (!node->operands.empty()) tokens_.expect_sign(",");
    if (tokens_.is_sign("}")) break;
    node->operands.push_back(expression());
    tokens_.expect_sign(":");
    node->operands.push_back(expression());
  }
  tokens_.expect_sign("}");
  return node;
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer node) {
  while (true) {
    if (tokens_.is_sign(".") || tokens_.is_sign("[")) {
      node = subscript(std::move(node));
    } else if (tokens_.is_sign("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPointer ExpressionParser::filters_and_tests(ExpressionPointer node) {
  while (true) {
    if (tokens_.is_sign("|")) {
      node = filters(std::move(node));
    } else if (tokens_.is_name("is")) {
      node = test(std::move(node));
    } else if (tokens_.is_sign("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer node) {
  const int line = tokens_.line();
  if (tokens_.skip_sign(".")) {
    if (tokens_.is(TemplateTokenKind::integer))
      return make(ExpressionKind::item, line, std::move(node), constant(Value::of(tokens_.take().integer), line));
    ExpressionPointer attribute = make(ExpressionKind::attribute, line, std::move(node));
    attribute->text = tokens_.take_name();
    attribute->value = Value::of(std::string_view(attribute->text));
    return attribute;
  }
  tokens_.expect_sign("[");
  std::vector<ExpressionPointer> parts(3);
  std::vector<ExpressionPointer> items;
  bool slice = false;
  while (!tokens_.is_sign("]")) {
    if (!items.empty() || slice) tokens_.expect_sign(",");
    if (slice) tokens_.fail("a slice together with other indices is not supported");
    if (!tokens_.is_sign(":")) {
      items.push_back(expression());
      if (!tokens_.is_sign(":")) continue;
      if (items.size() > 1) tokens_.fail("a slice together with other indices is not supported");
      parts[0] = std::move(items.back());
      items.pop_back();
    }
    slice = true;
    tokens_.expect_sign(":");
    const auto part_follows = [&] { return !tokens_.is_sign("]") && !tokens_.is_sign(",") && !tokens_.is_sign(":"); };
    if (part_follows()) parts[1] = expression();
    if (tokens_.skip_sign(":") && part_follows()) parts[2] = expression();
  }
  tokens_.expect_sign("]");
  if (slice)
    return make(ExpressionKind::slice, line, std::move(node), std::move(parts[0]), std::move(parts[1]),
                std::move(parts[2]));
  if (items.size() == 1) return make(ExpressionKind::item, line, std::move(node), std::move(items.front()));
  ExpressionPointer index = make(ExpressionKind::tuple, line);
  index->operands = std::move(items);
  return make(ExpressionKind::item, line, std::move(node), std::move(index));
}

ExpressionPointer ExpressionParser::call(ExpressionPointer callee) {
  ExpressionPointer node = make(ExpressionKind::call, tokens_.line(), std::move(callee));
  node->call = arguments();
  return node;
}

CallSyntax ExpressionParser::arguments() {
  CallSyntax call;
  const int line = tokens_.line();
  const auto require = [&](bool holds) {
    if (!holds) throw TemplateSyntaxFault(line, "positional arguments must precede keyword arguments, * and **");
  };
  tokens_.expect_sign("(");
  for (bool first = true; !tokens_.is_sign(")"); first = false) {
    if (!first) {
      tokens_.expect_sign(",");
      if (tokens_.is_sign(")")) break;
    }
    if (tokens_.is_sign("*")) {
      require(!call.more_positional && !call.more_named);
      tokens_.take();
      call.more_positional = expression();
    } else if (tokens_.is_sign("**")) {
      require(!call.more_named);
      tokens_.take();
      call.more_named = expression();
    } else if (tokens_.is(TemplateTokenKind::name) && tokens_.following().kind == TemplateTokenKind::sign &&
               tokens_.following().source == "=") {
      require(!call.more_named);
      std::string name = tokens_.take_name();
      tokens_.take();
      for (const auto& [other, value] : call.named) {
        if (other == name) tokens_.fail(fmt::format("the argument {} is given twice", name));
      }
      call.named.emplace_back(std::move(name), expression());
    } else {
      require(!call.more_positional && !call.more_named && call.named.empty());
      call.positional.push_back(expression());
    }
  }
  tokens_.expect_sign(")");
  return call;
}

ExpressionPointer ExpressionParser::filters(ExpressionPointer first, FirstFilter begins) {
  ExpressionPointer node = std::move(first);
  bool here = begins == FirstFilter::here;
  while (here || tokens_.is_sign("|")) {
    if (!here) tokens_.take();
    here = false;
    ExpressionPointer filter = make(ExpressionKind::filter, tokens_.line(), std::move(node));
    filter->text = tokens_.take_name();
    filter->builtin = filter_index(filter->text);
    if (tokens_.is_sign("(")) filter->call = arguments();
    node = std::move(filter);
  }
  return node;
}

ExpressionPointer ExpressionParser::test(ExpressionPointer node) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.skip_name("not");
  ExpressionPointer result = make(ExpressionKind::test, line, std::move(node));
  result->text = tokens_.take_name();
  result->builtin = test_index(result->text);
  const bool argument_follows = tokens_.is(TemplateTokenKind::name) || tokens_.is(TemplateTokenKind::text) ||
                                tokens_.is(TemplateTokenKind::integer) || tokens_.is(TemplateTokenKind::number) ||
                                tokens_.is_sign("[") || tokens_.is_sign("{");
  if (tokens_.is_sign("(")) {
    result->call = arguments();
  } else if (argument_follows && !tokens_.is_any_name({"else", "or", "and"})) {
    if (tokens_.is_name("is")) tokens_.fail("tests cannot be chained with is");
    result->call.positional.push_back(postfix(primary(Namespaces::without)));
  }
  return negated ? make(ExpressionKind::negation, line, std::move(result)) : std::move(result);
}

}  // namespace lockstep::jinja
