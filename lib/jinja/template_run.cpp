#include "jinja/template_run.hpp"

#include "jinja/template_print.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::jinja {

void TemplateRun::render() {
  RunFrame* const frame = enter(tree_.frame, nullptr);
  load(tree_.frame, frame);
  run(tree_.body, frame);
}

RunFrame* TemplateRun::enter(const FrameLayout& layout, RunFrame* outer) {
  auto* const frame = memory_.make<RunFrame>();
  frame->slots = memory_.items<Value>(static_cast<std::size_t>(layout.slots));
  frame->outer = outer;
  return frame;
}

void TemplateRun::load(const FrameLayout& layout, RunFrame* frame) const {
  for (const FrameLoad& load : layout.loads) {
    Value& slot = frame->slots[load.slot];
    switch (load.from) {
      case FrameLoad::From::nothing: slot = Value::missing(); break;
      case FrameLoad::From::outer: slot = variable(load.outer, frame); break;
      case FrameLoad::From::environment: slot = environment_[static_cast<std::size_t>(load.environment)]; break;
    }
  }
}

TemplateRun::Flow TemplateRun::run(const Body& body, RunFrame* frame) {
  for (const auto& statement : body) {
    const Flow flow = run(*statement, frame);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

TemplateRun::Flow TemplateRun::run(const Statement& statement, RunFrame* frame) {
  memory_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::output: put_out(statement, frame); return Flow::on;
    case StatementKind::conditional: return run_conditional(statement, frame);
    case StatementKind::loop: return run_loop(statement, frame);
    case StatementKind::assignment:
      assign(*statement.target, value_of(*statement.expressions.front(), frame), frame);
      return Flow::on;
    case StatementKind::block_assignment: assign_block(statement, frame); return Flow::on;
    case StatementKind::with: {
      RunFrame* const inner = enter(statement.frame, frame);
      load(statement.frame, inner);
      for (std::size_t i = 0; i < statement.targets.size(); ++i)
        assign(*statement.targets[i], value_of(*statement.expressions[i], frame), inner);
      return run(statement.body, inner);
    }
    case StatementKind::macro:
      variable(statement.place, frame) = Value::object(Kind::macro, memory_.make<MacroBody>(&statement, frame));
      return Flow::on;
    case StatementKind::call: run_call_block(statement, frame); return Flow::on;
    case StatementKind::filter: run_filter_block(statement, frame); return Flow::on;
    case StatementKind::generation: run_generation(statement, frame); return Flow::on;
    case StatementKind::stop: return Flow::stop;
    case StatementKind::next: return Flow::next;
  }
  return Flow::on;
}

void TemplateRun::put_out(const Statement& statement, RunFrame* frame) {
  for (const ExpressionPointer& expression : statement.expressions) {
    const std::size_t before = out_.size();
    append_text(out_, value_of(*expression, frame), memory_);
    memory_.count_bytes(out_.size() - before);
  }
}

TemplateRun::Flow TemplateRun::run_conditional(const Statement& statement, RunFrame* frame) {
  const TemplateMemory::Deeper deeper(memory_);
  if (is_true(value_of(*statement.expressions.front(), frame))) return run(statement.body, frame);
  for (const auto& branch : statement.branches) {
    if (is_true(value_of(*branch->expressions.front(), frame))) return run(branch->body, frame);
  }
  return run(statement.otherwise, frame);
}

/// The items of a loop for which its condition holds, found as the loop asks for them.
struct TemplateRun::LoopFilter : GeneratorBody {
  explicit LoopFilter(ItemSource items) : source(items) {}
  ItemSource source;
  TemplateRun* run = nullptr;
  const Statement* statement = nullptr;
  RunFrame* frame = nullptr;
};

Value TemplateRun::filtered_loop(const Statement& statement, const Value& items, RunFrame* frame) {
  auto* const body = memory_.make<LoopFilter>(ItemSource(items, memory_));
  body->run = this;
  body->statement = &statement;
  body->frame = enter(statement.test_frame, frame);
  load(statement.test_frame, body->frame);
  body->next = [](GeneratorBody& self, Value& item) {
    auto& filter = static_cast<LoopFilter&>(self);
    while (filter.source.next(item)) {
      filter.run->assign(*filter.statement->test_target, item, filter.frame);
      if (is_true(filter.run->value_of(*filter.statement->test, filter.frame))) return true;
    }
    return false;
  };
  return Value::object<GeneratorBody>(Kind::generator, body);
}

TemplateRun::Flow TemplateRun::run_loop(const Statement& statement, RunFrame* frame) {
  const TemplateMemory::Deeper deeper(memory_);
  Value items = value_of(*statement.expressions.front(), frame);
  line_ = statement.line;
  if (items.is(Kind::loop)) throw TemplateFault("a loop over a loop is not supported");
  if (statement.test) items = filtered_loop(statement, items, frame);
  RunFrame* const inner = enter(statement.frame, frame);
  auto* const loop = memory_.make<LoopBody>(ItemSource(items, memory_));
  bool came_to_an_end = false;  // of a body; Jinja's else does not ask whether one began
  for (Value item; loop->next(item);) {
    assign(*statement.target, item, inner);
    if (statement.loop_slot) inner->slots[*statement.loop_slot] = Value::object(Kind::loop, loop);
    load(statement.frame, inner);
    const Flow flow = run(statement.body, inner);
    if (flow == Flow::stop) break;
    if (flow == Flow::on) came_to_an_end = true;
  }
  if (came_to_an_end || statement.otherwise.empty()) return Flow::on;
  RunFrame* const otherwise = enter(statement.otherwise_frame, frame);
  load(statement.otherwise_frame, otherwise);
  return run(statement.otherwise, otherwise);
}

Value TemplateRun::captured(const Body& body, RunFrame* frame) {
  const TemplateMemory::Deeper deeper(memory_);
  std::string outside;
  outside.swap(out_);
  run(body, frame);  // loops around it cannot be left from here
  const Value text = Value::of(memory_.copy(out_));
  out_.swap(outside);
  return text;
}

void TemplateRun::run_call_block(const Statement& statement, RunFrame* frame) {
  const Value caller = Value::object(Kind::macro, memory_.make<MacroBody>(&statement, frame));
  append_text(out_, call_value(*statement.expressions.front(), frame, caller), memory_);
}

void TemplateRun::run_filter_block(const Statement& statement, RunFrame* frame) {
  RunFrame* const inner = enter(statement.frame, frame);
  load(statement.frame, inner);
  const Value text = captured(statement.body, inner);
  const Value before = std::exchange(block_text_, text);
  append_text(out_, value_of(*statement.expressions.front(), inner), memory_);
  block_text_ = before;
}

void TemplateRun::assign_block(const Statement& statement, RunFrame* frame) {
  RunFrame* const inner = enter(statement.frame, frame);
  load(statement.frame, inner);
  Value value = captured(statement.body, inner);
  if (!statement.expressions.empty()) {
    const Value before = std::exchange(block_text_, value);
    value = value_of(*statement.expressions.front(), inner);
    block_text_ = before;
  }
  assign(*statement.target, value, frame);
}

void TemplateRun::run_generation(const Statement& statement, RunFrame* frame) {
  RunFrame* const inner = enter(statement.frame, frame);
  load(statement.frame, inner);
  const std::size_t begin = out_.size();
  run(statement.body, inner);
  generated_.emplace_back(begin, out_.size());
}

void TemplateRun::assign(const Expression& target, const Value& value, RunFrame* frame) {
  if (target.kind == ExpressionKind::name) {
    variable(target.place, frame) = value;
    return;
  }
  if (target.kind == ExpressionKind::attribute_target) {
    const Value& holder = variable(target.place, frame);
    if (!holder.is(Kind::name_space))
      throw TemplateFault(fmt::format("'{}' is not a namespace: its attributes cannot be assigned", target.text));
    return set_attribute(holder.body<NamespaceBody>(), target.attribute, value, memory_);
  }
  if (!is_iterable(value))
    throw TemplateFault(fmt::format("cannot unpack a {} into {} names", type_name(value), target.operands.size()));
  const std::vector<Value> parts = items_of(value, memory_);
  if (parts.size() != target.operands.size())
    throw TemplateFault(fmt::format("cannot unpack {} values into {} names", parts.size(), target.operands.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) assign(*target.operands[i], parts[i], frame);
}

Value TemplateRun::call_macro(const MacroBody& body, const CallArguments& arguments) {
  const TemplateMemory::Deeper deeper(memory_);
  const MacroSyntax& macro = *body.statement->macro;
  RunFrame* const frame = enter(body.statement->frame, body.outer);
  const auto fail = [&](std::string_view what, std::string_view name) {
    throw TemplateFault(fmt::format("the macro {} {} '{}'", macro.name.empty() ? "caller" : macro.name, what, name));
  };
  const auto slot = [&](std::size_t index) -> Value& { return frame->slots[macro.parameter_slots[index]]; };
  const std::size_t count = macro.parameters.size();
  const std::size_t given = std::min(count, arguments.positional.size());
  for (std::size_t i = 0; i < given; ++i) slot(i) = arguments.positional[i];
  std::vector<Pair> others;
  Value caller = Value::undefined("no caller is defined");
  for (const Pair& pair : arguments.named) {
    const auto found = std::ranges::find(macro.parameters, pair.key.text());
    const auto index = static_cast<std::size_t>(found - macro.parameters.begin());
    if (found != macro.parameters.end() && index >= given) {
      slot(index) = pair.value;
    } else if (macro.caller && pair.key.text() == "caller") {
      caller = pair.value.is(Kind::none) ? caller : pair.value;
    } else {
      others.push_back(pair);
    }
  }
  if (!others.empty() && !macro.named) fail("takes no argument", others.front().key.text());
  if (arguments.positional.size() > count && !macro.positional)
    throw TemplateFault(
        fmt::format("the macro {} takes at most {} arguments, not {}", macro.name, count, arguments.positional.size()));
  if (macro.caller) frame->slots[*macro.caller] = caller;
  if (macro.named) frame->slots[*macro.named] = dict_of(others, memory_);
  if (macro.positional) {
    const auto rest = arguments.positional.subspan(given);
    frame->slots[*macro.positional] = Value::tuple(rest.data(), rest.size());
  }
  load(body.statement->frame, frame);
  const std::size_t without_default = count - macro.defaults.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!slot(i).is(Kind::missing)) continue;
    slot(i) = i < without_default ? Value::undefined("a parameter of a macro was not given")
                                  : value_of(*macro.defaults[i - without_default], frame);
  }
  return captured(body.statement->body, frame);
}

}  // namespace lockstep::jinja
