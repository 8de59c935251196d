#include "jinja/template_arithmetic.hpp"
#include "jinja/template_builtins.hpp"
#include "jinja/template_functions.hpp"
#include "jinja/template_methods.hpp"
#include "jinja/template_print.hpp"
#include "jinja/template_run.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::jinja {

Value TemplateRun::name_value(const Expression& node, RunFrame* frame) const {
  const Value& value = variable(node.place, frame);
  return value.is(Kind::missing) ? Value::undefined(node.attribute) : value;
}

Value TemplateRun::value_of(const Expression& node, RunFrame* frame) {
  memory_.step();
  if (node.kind == ExpressionKind::constant) return node.value;
  if (node.kind == ExpressionKind::name) return name_value(node, frame);
  const TemplateMemory::Deeper deeper(memory_);
  const auto operand = [&](std::size_t index) { return value_of(*node.operands[index], frame); };
  const auto at_this_line = [&] { line_ = node.line; };
  switch (node.kind) {
    case ExpressionKind::constant:
    case ExpressionKind::name:
    case ExpressionKind::attribute_target: break;
    case ExpressionKind::list:
    case ExpressionKind::tuple: return sequence_value(node, frame);
    case ExpressionKind::dict: return dict_value(node, frame);
    case ExpressionKind::attribute: {
      const Value holder = operand(0);
      at_this_line();
      return attribute_of(holder, node.text, memory_);
    }
    case ExpressionKind::item: {
      const Value holder = operand(0);
      const Value key = operand(1);
      at_this_line();
      return item_of(holder, key, memory_);
    }
    case ExpressionKind::slice: return slice_value(node, frame);
    case ExpressionKind::call: return call_value(node, frame, Value::missing());
    case ExpressionKind::filter: return filter_value(node, frame);
    case ExpressionKind::test: {
      const Value value = operand(0);
      const CallArguments arguments = arguments_of(node.call, frame, Value::missing());
      at_this_line();
      if (node.builtin < 0) throw TemplateFault(fmt::format("the test '{}' is not supported", node.text));
      return Value::of(apply_test(node.builtin, value, arguments, memory_));
    }
    case ExpressionKind::negative: return negative(operand(0));
    case ExpressionKind::positive: return positive(operand(0));
    case ExpressionKind::negation: return Value::of(!is_true(operand(0)));
    case ExpressionKind::conjunction: {
      const Value value = operand(0);
      return is_true(value) ? operand(1) : value;
    }
    case ExpressionKind::disjunction: {
      const Value value = operand(0);
      return is_true(value) ? value : operand(1);
    }
    case ExpressionKind::conditional:
      if (is_true(operand(1))) return operand(0);
      return node.operands[2] ? operand(2) : Value::undefined("the condition of an if without else is false");
    case ExpressionKind::binary: {
      const Value a = operand(0);
      const Value b = operand(1);
      at_this_line();
      return binary(node.binary, a, b, memory_);
    }
    case ExpressionKind::concatenation: return concatenation_value(node, frame);
    case ExpressionKind::comparison: return comparison_value(node, frame);
  }
  throw TemplateFault("this expression has no value");
}

Value TemplateRun::sequence_value(const Expression& node, RunFrame* frame) {
  Value* const items = memory_.items<Value>(node.operands.size());
  for (std::size_t i = 0; i < node.operands.size(); ++i) items[i] = value_of(*node.operands[i], frame);
  return node.kind == ExpressionKind::list ? Value::list(items, node.operands.size())
                                           : Value::tuple(items, node.operands.size());
}

Value TemplateRun::dict_value(const Expression& node, RunFrame* frame) {
  std::vector<Pair> pairs;
  pairs.reserve(node.operands.size() / 2);
  for (std::size_t i = 0; i < node.operands.size(); i += 2) {
    const Value key = value_of(*node.operands[i], frame);
    pairs.push_back({key, value_of(*node.operands[i + 1], frame)});
  }
  return dict_of(pairs, memory_);
}

Value TemplateRun::comparison_value(const Expression& node, RunFrame* frame) {
  Value left = value_of(*node.operands[0], frame);
  Value result;
  for (std::size_t i = 0; i < node.comparisons.size(); ++i) {
    const Value right = value_of(*node.operands[i + 1], frame);
    line_ = node.line;
    result = compared(node.comparisons[i], left, right, memory_);
    if (!result.boolean()) return result;
    left = right;
  }
  return result;
}

Value TemplateRun::concatenation_value(const Expression& node, RunFrame* frame) {
  Value* const parts = memory_.items<Value>(node.operands.size());
  std::size_t size = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    parts[i] = Value::of(text_of(value_of(*node.operands[i], frame), memory_));
    size += parts[i].text().size();
  }
  if (size == 0) return Value::of(std::string_view());
  char* const text = memory_.bytes(size);
  char* next = text;
  for (std::size_t i = 0; i < node.operands.size(); ++i) next = std::ranges::copy(parts[i].text(), next).out;
  memory_.step(size / 64);
  return Value::of(std::string_view(text, size));
}

Value TemplateRun::slice_value(const Expression& node, RunFrame* frame) {
  std::array<Value, 4> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (node.operands[i]) parts[i] = value_of(*node.operands[i], frame);
  }
  line_ = node.line;
  return slice_of(parts[0], parts[1], parts[2], parts[3], memory_);
}

Value TemplateRun::filter_value(const Expression& node, RunFrame* frame) {
  const Value value = node.operands[0] ? value_of(*node.operands[0], frame) : block_text_;
  const CallArguments arguments = arguments_of(node.call, frame, Value::missing());
  line_ = node.line;
  if (node.builtin < 0) throw TemplateFault(fmt::format("the filter '{}' is not supported", node.text));
  return apply_filter(node.builtin, value, arguments, memory_);
}

CallArguments TemplateRun::arguments_of(const CallSyntax& call, RunFrame* frame, const Value& caller) {
  const bool plain = call.positional.empty() && call.named.empty() && !call.more_positional && !call.more_named &&
                     caller.is(Kind::missing);
  if (plain) return {};
  std::vector<Value> more;
  Value* positional = memory_.items<Value>(call.positional.size());
  std::size_t count = call.positional.size();
  for (std::size_t i = 0; i < count; ++i) positional[i] = value_of(*call.positional[i], frame);
  const std::size_t extra = caller.is(Kind::missing) ? 0 : 1;
  Pair* named = memory_.items<Pair>(call.named.size() + extra);
  std::size_t named_count = call.named.size();
  for (std::size_t i = 0; i < named_count; ++i)
    named[i] = {Value::of(std::string_view(call.named[i].first)), value_of(*call.named[i].second, frame)};
  if (extra > 0) named[named_count++] = {Value::of(std::string_view("caller")), caller};
  if (call.more_positional) {
    more = items_of(value_of(*call.more_positional, frame), memory_);
    Value* const all = memory_.items<Value>(count + more.size());
    std::ranges::copy(more, std::copy_n(positional, count, all));
    positional = all;
    count += more.size();
  }
  if (call.more_named) {
    const Value given = value_of(*call.more_named, frame);
    if (!given.is(Kind::dict)) throw TemplateFault(fmt::format("** takes a dict, not a {}", type_name(given)));
    Pair* const all = memory_.items<Pair>(named_count + given.pairs().size());
    std::copy_n(named, named_count, all);
    for (const Pair& pair : given.pairs()) {
      const std::string_view name = text_argument("**", pair.key);
      if (find(std::span(all, named_count), name, memory_) != nullptr)
        throw TemplateFault(fmt::format("the argument '{}' is given twice", name));
      all[named_count++] = pair;
    }
    named = all;
  }
  return {.positional = {positional, count}, .named = {named, named_count}};
}

Value TemplateRun::call_value(const Expression& node, RunFrame* frame, const Value& caller) {
  const Value callee = value_of(*node.operands[0], frame);
  const CallArguments arguments = arguments_of(node.call, frame, caller);
  line_ = node.line;
  return call(callee, arguments);
}

Value TemplateRun::call(const Value& callee, const CallArguments& arguments) {
  if (callee.is(Kind::function)) return call_function(callee, arguments, memory_);
  if (callee.is(Kind::method)) return call_method(callee.body<MethodBody>(), arguments, memory_);
  if (callee.is(Kind::macro)) return call_macro(callee.body<MacroBody>(), arguments);
  if (callee.is(Kind::joiner)) return call_joiner(callee.body<JoinerBody>(), arguments);
  if (callee.is(Kind::undefined)) fail_undefined(callee);
  if (callee.is(Kind::loop)) throw TemplateFault("calling loop() is not supported: its for is not recursive");
  throw TemplateFault(fmt::format("a {} cannot be called", type_name(callee)));
}

}  // namespace lockstep::jinja
