#include "jinja/chat_template.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "jinja/template_functions.hpp"
#include "jinja/template_lexer.hpp"
#include "jinja/template_parser.hpp"
#include "jinja/template_run.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

using jinja::Kind;
using jinja::Pair;
using jinja::TemplateMemory;
using jinja::Value;

jinja::SyntaxTree parsed(const std::string& text, const std::string& origin) {
  if (const auto at = first_invalid_utf8(text)) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n') + 1;
    fail(ExitCode::input, "{}:{}: byte {} of the template is not UTF-8", origin, line, *at);
  }
  try {
    return jinja::parse_template(text);
  } catch (const jinja::TemplateSyntaxFault& fault) {
    fail(ExitCode::input, "{}:{}: {}", origin, fault.line(), fault.what());
  }
}

/// Models name what a message thought differently: a template finds it under the two names that templates read.
Value with_reasoning(const Value& message, TemplateMemory& memory) {
  if (!message.is(Kind::dict)) return message;
  const Value* reasoning = nullptr;
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* const found = jinja::find(message.pairs(), name, memory);
    if (found != nullptr && !found->is(Kind::none)) {
      reasoning = found;
      break;
    }
  }
  if (reasoning == nullptr) return message;
  std::vector<Pair> pairs{{Value::of(std::string_view("thinking")), *reasoning}};
  pairs.insert(pairs.end(), message.pairs().begin(), message.pairs().end());
  pairs.push_back({Value::of(std::string_view("reasoning_content")), *reasoning});
  return jinja::dict_of(pairs, memory);
}

Value messages_of(const Json& messages, TemplateMemory& memory) {
  const Value list = jinja::value_of(messages, memory);
  if (!list.is(Kind::list)) throw jinja::TemplateFault("the messages are not a list");
  std::vector<Value> items;
  for (const Value& message : list.sequence()) items.push_back(with_reasoning(message, memory));
  return jinja::list_from(items, memory);
}

/// The values of the names that a template asks of its environment.
std::span<const Value> environment_of(const jinja::SyntaxTree& tree, const ChatInput& input, TemplateMemory& memory) {
  const auto given = [&](const Json* json) { return json == nullptr ? Value::none() : jinja::value_of(*json, memory); };
  Value* const values = memory.items<Value>(tree.environment_names.size());
  for (std::size_t i = 0; i < tree.environment_names.size(); ++i) {
    const std::string& name = tree.environment_names[i];
    if (name == "messages") {
      values[i] = messages_of(input.messages, memory);
    } else if (name == "tools") {
      values[i] = given(input.tools);
    } else if (name == "documents") {
      values[i] = given(input.documents);
    } else if (name == "add_generation_prompt") {
      values[i] = Value::of(input.add_generation_prompt);
    } else if (input.variables != nullptr && input.variables->contains(name)) {
      values[i] = jinja::value_of(input.variables->at(name), memory);
    } else {
      values[i] = jinja::function_named(name).value_or(Value::missing());
    }
  }
  return {values, tree.environment_names.size()};
}

}  // namespace

ChatTemplate::ChatTemplate(std::string text, std::string origin)
    : origin_(std::move(origin)), tree_(std::make_unique<const jinja::SyntaxTree>(parsed(text, origin_))) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::marks_generation() const { return tree_->marks_generation; }

RenderedChat ChatTemplate::render(const ChatInput& input) const { return render(input, {}); }

RenderedChat ChatTemplate::render(const ChatInput& input, const jinja::TemplateLimits& limits) const {
  TemplateMemory memory(limits);
  int line = 1;
  try {
    jinja::TemplateRun run(*tree_, environment_of(*tree_, input, memory), memory);
    try {
      run.render();
    } catch (const jinja::TemplateFault&) {
      line = run.line();
      throw;
    }
    RenderedChat chat{.text = run.take_text()};
    for (const auto& [begin, end] : run.take_generated()) chat.generated.push_back({begin, end});
    return chat;
  } catch (const jinja::TemplateFault& fault) {
    fail(ExitCode::input, "{}:{}: {}", origin_, line, fault.what());
  }
}

}  // namespace lockstep
