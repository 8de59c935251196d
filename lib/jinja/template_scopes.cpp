#include "jinja/template_scopes.hpp"

#include "jinja/template_lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace lockstep::jinja {

namespace {

/// What is known of the names of one frame while it is looked through.
struct Symbols {
  enum class Load : std::uint8_t { parameter, nothing, outer, environment };

  const Symbols* parent = nullptr;
  std::map<std::string, int, std::less<>>* slots = nullptr;  // of the frame; branches of an if share it
  std::set<std::string, std::less<>> known = {};
  std::map<std::string, Load, std::less<>> loads = {};
  std::set<std::string, std::less<>> stored = {};

  bool finds(const std::string& name) const {
    return known.contains(name) || (parent != nullptr && parent->finds(name));
  }
  bool outer_finds(const std::string& name) const { return parent != nullptr && parent->finds(name); }
  void define(const std::string& name, Load load) {
    known.insert(name);
    slots->emplace(name, static_cast<int>(slots->size()));
    loads[name] = load;
  }
  void store(const std::string& name) {
    stored.insert(name);
    if (!known.contains(name)) define(name, outer_finds(name) ? Load::outer : Load::nothing);
  }
  void parameter(const std::string& name) {
    stored.insert(name);
    define(name, Load::parameter);
  }
  void load(const std::string& name) {
    if (!finds(name)) define(name, Load::environment);
  }
  /// Takes over what branches of an if did: what only some of them assign has its value from before in the others.
  void join(const std::vector<Symbols>& branches) {
    std::set<std::string, std::less<>> fresh;
    for (const Symbols& branch : branches) {
      for (const std::string& name : branch.stored) {
        if (!stored.contains(name)) fresh.insert(name);
      }
    }
    for (const Symbols& branch : branches) {
      known.insert(branch.known.begin(), branch.known.end());
      for (const auto& [name, load] : branch.loads) loads[name] = load;
      stored.insert(branch.stored.begin(), branch.stored.end());
    }
    for (const std::string& name : fresh) loads[name] = outer_finds(name) ? Load::outer : Load::environment;
  }
};

using Target = const std::function<void(const std::string&)>&;

void visit_names_of_target(const Expression& target, Target visit) {
  if (target.kind == ExpressionKind::name) visit(target.text);
  for (const ExpressionPointer& item : target.operands) visit_names_of_target(*item, visit);
}

/// All expressions below one, itself included, in the order in which Jinja looks through them.
void visit_expressions(const Expression* node, const std::function<void(const Expression&)>& visit) {
  if (node == nullptr) return;
  visit(*node);
  for (const ExpressionPointer& operand : node->operands) visit_expressions(operand.get(), visit);
  for (const ExpressionPointer& argument : node->call.positional) visit_expressions(argument.get(), visit);
  for (const auto& [name, argument] : node->call.named) visit_expressions(argument.get(), visit);
  visit_expressions(node->call.more_positional.get(), visit);
  visit_expressions(node->call.more_named.get(), visit);
}

// What a frame does with names: blocks that are frames of their own are not looked into.

void look(Symbols& symbols, const Expression* node) {
  visit_expressions(node, [&](const Expression& found) {
    if (found.kind == ExpressionKind::name || found.kind == ExpressionKind::attribute_target) symbols.load(found.text);
  });
}

void look_at_target(Symbols& symbols, const Expression& target) {
  if (target.kind == ExpressionKind::attribute_target) symbols.load(target.text);
  if (target.kind == ExpressionKind::name) symbols.store(target.text);
  for (const ExpressionPointer& item : target.operands) look_at_target(symbols, *item);
}

void look(Symbols& symbols, const Statement& statement);
void look(Symbols& symbols, const Body& body) {
  for (const auto& statement : body) look(symbols, *statement);
}

void look(Symbols& symbols, const Statement& statement) {
  const auto look_at_expressions = [&] {
    for (const ExpressionPointer& expression : statement.expressions) look(symbols, expression.get());
  };
  switch (statement.kind) {
    case StatementKind::conditional: {
      look_at_expressions();
      std::vector<Symbols> branches(3, symbols);
      look(branches[0], statement.body);
      look(branches[1], statement.branches);
      look(branches[2], statement.otherwise);
      symbols.join(branches);
      return;
    }
    case StatementKind::assignment:
      look_at_expressions();
      look_at_target(symbols, *statement.target);
      return;
    case StatementKind::block_assignment: look_at_target(symbols, *statement.target); return;
    case StatementKind::macro: symbols.store(statement.macro->name); return;
    case StatementKind::output:
    case StatementKind::loop:
    case StatementKind::with:
    case StatementKind::call:
    case StatementKind::filter: look_at_expressions(); return;
    case StatementKind::generation:
    case StatementKind::stop:
    case StatementKind::next: return;
  }
}

/// Whether a body reads one of `names` before it assigns it, in whatever frame.
class Asked {
 public:
  explicit Asked(std::set<std::string, std::less<>> names) : names_(std::move(names)) {}

  void look_through(const Body& body) {
    for (const auto& statement : body) look_through(*statement);
  }
  bool asks(std::string_view name) const { return found_.contains(name); }

 private:
  void look_through(const Expression* node) {
    visit_expressions(node, [&](const Expression& found) {
      if (found.kind == ExpressionKind::name && names_.contains(found.text)) found_.insert(found.text);
    });
  }
  void forget(const Expression* target) {
    if (target != nullptr) visit_names_of_target(*target, [&](const std::string& name) { names_.erase(name); });
  }
  void look_through(const Statement& statement) {
    forget(statement.target.get());
    for (const ExpressionPointer& target : statement.targets) forget(target.get());
    for (const ExpressionPointer& expression : statement.expressions) look_through(expression.get());
    if (statement.macro) {
      for (const std::string& parameter : statement.macro->parameters) names_.erase(parameter);
      for (const ExpressionPointer& expression : statement.macro->defaults) look_through(expression.get());
    }
    look_through(statement.body);
    look_through(statement.branches);
    look_through(statement.otherwise);
    look_through(statement.test.get());
  }

  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> found_;
};

/// A frame: its symbols and what is outside.
struct Frame {
  explicit Frame(const Frame* outside)
      : outer(outside), symbols{.parent = outside == nullptr ? nullptr : &outside->symbols, .slots = &slots} {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  Place place(const std::string& name) const {
    Place place;
    const Frame* frame = this;
    while (!frame->symbols.known.contains(name)) {
      frame = frame->outer;
      ++place.hops;
      if (frame == nullptr) throw TemplateFault(fmt::format("no frame has the name '{}'", name));
    }
    place.slot = frame->slots.find(name)->second;
    return place;
  }

  const Frame* outer;
  std::map<std::string, int, std::less<>> slots;
  Symbols symbols;
};

class Resolver {
 public:
  explicit Resolver(SyntaxTree& tree) : tree_(tree) {}

  void run() {
    Frame frame(nullptr);
    look(frame.symbols, tree_.body);
    tree_.frame = layout_of(frame);
    place(frame, tree_.body);
  }

 private:
  FrameLayout layout_of(const Frame& frame);
  void place(const Frame& frame, Expression* node) const;
  void place(const Frame& frame, const Body& body) {
    for (const auto& statement : body) place(frame, *statement);
  }
  void place(const Frame& frame, Statement& statement);
  void place_loop(const Frame& frame, Statement& loop);
  void place_macro(const Frame& frame, Statement& statement);
  void place_body(const Frame& frame, Statement& statement);

  SyntaxTree& tree_;
};

FrameLayout Resolver::layout_of(const Frame& frame) {
  FrameLayout layout{.slots = static_cast<int>(frame.slots.size())};
  for (const auto& [name, load] : frame.symbols.loads) {
    FrameLoad entry{.slot = frame.slots.find(name)->second};
    if (load == Symbols::Load::parameter) continue;
    if (load == Symbols::Load::outer) {
      entry.from = FrameLoad::From::outer;
      entry.outer = frame.outer->place(name);
      ++entry.outer.hops;
    } else if (load == Symbols::Load::environment) {
      entry.from = FrameLoad::From::environment;
      auto& names = tree_.environment_names;
      auto found = std::ranges::find(names, name);
      if (found == names.end()) found = names.insert(names.end(), name);
      entry.environment = static_cast<int>(found - names.begin());
    }
    layout.loads.push_back(entry);
  }
  return layout;
}

void Resolver::place(const Frame& frame, Expression* node) const {
  visit_expressions(node, [&](const Expression& found) {
    if (found.kind == ExpressionKind::name || found.kind == ExpressionKind::attribute_target)
      const_cast<Expression&>(found).place = frame.place(found.text);  // the tree is ours to fill in
  });
}

void Resolver::place(const Frame& frame, Statement& statement) {
  switch (statement.kind) {
    case StatementKind::output:
    case StatementKind::conditional:
    case StatementKind::assignment:
      for (const ExpressionPointer& expression : statement.expressions) place(frame, expression.get());
      place(frame, statement.target.get());
      place(frame, statement.body);
      place(frame, statement.branches);
      place(frame, statement.otherwise);
      return;
    case StatementKind::loop: return place_loop(frame, statement);
    case StatementKind::macro:
      statement.place = frame.place(statement.macro->name);
      return place_macro(frame, statement);
    case StatementKind::call: place(frame, statement.expressions.front().get()); return place_macro(frame, statement);
    case StatementKind::block_assignment:
    case StatementKind::with:
    case StatementKind::filter:
    case StatementKind::generation: return place_body(frame, statement);
    case StatementKind::stop:
    case StatementKind::next: return;
  }
}

ExpressionPointer copy_of_target(const Expression& target) {
  auto copy = std::make_unique<Expression>(Expression{.kind = target.kind, .line = target.line});
  copy->text = target.text;
  for (const ExpressionPointer& item : target.operands) copy->operands.push_back(copy_of_target(*item));
  return copy;
}

void refuse_loop_as_target(const Expression& target) {
  visit_names_of_target(target, [&](const std::string& name) {
    if (name == "loop") throw TemplateSyntaxFault(target.line, "the variable loop cannot be assigned to in a loop");
  });
}

void refuse_loop_as_target(const Body& body) {
  for (const auto& statement : body) {
    if (statement->target) refuse_loop_as_target(*statement->target);
    refuse_loop_as_target(statement->body);
    refuse_loop_as_target(statement->branches);
    refuse_loop_as_target(statement->otherwise);
  }
}

void Resolver::place_loop(const Frame& frame, Statement& loop) {
  refuse_loop_as_target(*loop.target);
  refuse_loop_as_target(loop.body);
  refuse_loop_as_target(loop.otherwise);
  place(frame, loop.expressions.front().get());
  Asked asked({"loop"});
  asked.look_through(loop.body);
  const auto add_target = [&](Frame& inner) {
    visit_names_of_target(*loop.target, [&](const std::string& name) { inner.symbols.parameter(name); });
  };
  Frame inner(&frame);
  if (asked.asks("loop")) inner.symbols.parameter("loop");
  add_target(inner);
  look(inner.symbols, loop.body);
  if (asked.asks("loop")) loop.loop_slot = inner.place("loop").slot;
  loop.frame = layout_of(inner);
  if (loop.test) {
    Frame tested(&frame);
    add_target(tested);
    look(tested.symbols, loop.test.get());
    loop.test_frame = layout_of(tested);
    loop.test_target = copy_of_target(*loop.target);
    place(tested, loop.test_target.get());
    place(tested, loop.test.get());
  }
  place(inner, loop.target.get());
  place(inner, loop.body);
  Frame otherwise(&frame);
  look(otherwise.symbols, loop.otherwise);
  loop.otherwise_frame = layout_of(otherwise);
  place(otherwise, loop.otherwise);
}

void Resolver::place_macro(const Frame& frame, Statement& statement) {
  MacroSyntax& macro = *statement.macro;
  Frame inner(&frame);
  for (const std::string& name : macro.parameters) inner.symbols.parameter(name);
  Asked asked({"caller", "kwargs", "varargs"});
  asked.look_through(statement.body);
  const auto has_parameter = [&](std::string_view name) {
    return std::ranges::find(macro.parameters, name) != macro.parameters.end();
  };
  const auto add = [&](const char* name) -> std::optional<int> {
    if (!asked.asks(name) || has_parameter(name)) return std::nullopt;
    inner.symbols.parameter(name);
    return inner.slots.find(name)->second;
  };
  macro.has_caller_parameter = has_parameter("caller");
  if (macro.has_caller_parameter && asked.asks("caller")) {
    const auto at = std::ranges::find(macro.parameters, "caller") - macro.parameters.begin();
    if (at < static_cast<std::ptrdiff_t>(macro.parameters.size() - macro.defaults.size()))
      throw TemplateSyntaxFault(statement.line, "a parameter 'caller' needs a default");
  }
  macro.caller = add("caller");
  macro.named = add("kwargs");
  macro.positional = add("varargs");
  for (const ExpressionPointer& expression : macro.defaults) look(inner.symbols, expression.get());
  look(inner.symbols, statement.body);
  for (const std::string& name : macro.parameters) macro.parameter_slots.push_back(inner.slots.find(name)->second);
  statement.frame = layout_of(inner);
  for (const ExpressionPointer& expression : macro.defaults) place(inner, expression.get());
  place(inner, statement.body);
}

/// A set, with, filter or generation block.
void Resolver::place_body(const Frame& frame, Statement& statement) {
  const bool is_with = statement.kind == StatementKind::with;
  Frame inner(&frame);
  for (const ExpressionPointer& target : statement.targets)
    visit_names_of_target(*target, [&](const std::string& name) { inner.symbols.parameter(name); });
  if (!is_with) {
    for (const ExpressionPointer& expression : statement.expressions) look(inner.symbols, expression.get());
  }
  look(inner.symbols, statement.body);
  statement.frame = layout_of(inner);
  for (const ExpressionPointer& target : statement.targets) place(inner, target.get());
  for (const ExpressionPointer& expression : statement.expressions) place(is_with ? frame : inner, expression.get());
  place(frame, statement.target.get());
  place(inner, statement.body);
}

}  // namespace

void resolve_names(SyntaxTree& tree) { Resolver(tree).run(); }

}  // namespace lockstep::jinja
