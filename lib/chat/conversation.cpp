#include "chat/conversation.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 11> sharegpt_roles{{{"human", "user"},
                                                                                        {"user", "user"},
                                                                                        {"gpt", "assistant"},
                                                                                        {"chatgpt", "assistant"},
                                                                                        {"assistant", "assistant"},
                                                                                        {"model", "assistant"},
                                                                                        {"function_call", "assistant"},
                                                                                        {"system", "system"},
                                                                                        {"tool", "tool"},
                                                                                        {"observation", "tool"},
                                                                                        {"function_response", "tool"}}};

std::string shown(const Json& value) { return to_text(value).substr(0, 60); }

/// As transformers does: tables have null where a message lacks what others have.
void drop_nulls(Json& message) {
  Json kept = Json::object();
  for (auto& [key, value] : message.items())
    if (!value.is_null()) kept[key] = std::move(value);
  message = std::move(kept);
}

/// What the assistant calls, spelled out as JSON: an object with name and arguments, or a list of such.
Json tool_calls_of(const Json& value, const std::string& place) {
  const auto refuse = [&] {
    throw Error(ExitCode::input, fmt::format("{} has a function_call with the value {}", place, shown(value)),
                "the value must be a JSON object with name and arguments, or a list of them, possibly as a string");
  };
  Json calls = value.is_string() ? Json::parse(value.get_ref<const std::string&>(), nullptr, false) : value;
  if (calls.is_object()) calls = Json::array({std::move(calls)});
  if (!calls.is_array() || calls.empty()) refuse();
  Json made = Json::array();
  for (const Json& call : calls) {
    const auto name = call.is_object() ? call.find("name") : call.end();
    if (!call.is_object() || name == call.end() || !name->is_string()) refuse();
    made.push_back({{"type", "function"}, {"function", call}});
  }
  return made;
}

/// A message of ShareGPT with the names that templates know.
Json renamed(const Json& message, const std::string& place) {
  Json made = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (key == "value" && message["from"] == "function_call") {
      made["tool_calls"] = tool_calls_of(value, place);
    } else if (key == "value") {
      made["content"] = value;
    } else if (key == "from") {
      const auto role = value.is_string() ? std::ranges::find(sharegpt_roles, value.get_ref<const std::string&>(),
                                                              &decltype(sharegpt_roles)::value_type::first)
                                          : sharegpt_roles.end();
      if (role == sharegpt_roles.end()) {
        std::vector<std::string> names;
        for (const auto& [name, meaning] : sharegpt_roles) names.emplace_back(name);
        throw Error(
            ExitCode::input, fmt::format("{} is from {}, which is not a known role", place, shown(value)),
            fmt::format("known roles: {}; messages in the OpenAI format have role and content", join(names, ", ")));
      }
      made["role"] = role->second;
    } else {
      made[key] = value;
    }
  }
  return made;
}

void check_content(const Json& message, const std::string& place) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_string()) return;
  if (!content->is_array())
    fail(ExitCode::input, "{}.content is {}, neither a string nor a list of parts", place, shown(*content));
  for (std::size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string())
      fail(ExitCode::input, "{}.content[{}] is {}, not a part with a type", place, i, shown(part));
    if (*type != "text")
      throw Error(
          ExitCode::input,
          fmt::format("{}.content[{}] has the type {}: only parts of type text are supported", place, i, shown(*type)),
          "use data.malformed: skip to skip such records");
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) fail(ExitCode::input, "{}.content[{}] has no text", place, i);
  }
}

void check_weight(const Json& message, const std::string& place) {
  const auto weight = message.find("weight");
  if (weight == message.end()) return;
  if (!weight->is_number() || (*weight != 0 && *weight != 1))
    fail(ExitCode::input, "{}.weight is {}, neither 0 nor 1", place, shown(*weight));
}

void put_system_first(Json& messages, const Json& system, const std::string& field) {
  if (system.is_null() || system == "") return;
  if (!system.is_string()) fail(ExitCode::input, "system is {}, not a string", shown(system));
  if (messages[0]["role"] == "system")
    throw Error(ExitCode::input,
                fmt::format("the record has the field system, and {}[0] is a system message too", field),
                "remove one of them: a template takes one system message");
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", system}});
}

void check_variables(const Json& variables) {
  if (!variables.is_object())
    fail(ExitCode::input, "chat_template_kwargs is {}, not an object of variables", shown(variables));
  for (const char* const name : {"messages", "tools", "add_generation_prompt"})
    if (variables.contains(name))
      fail(ExitCode::input, "chat_template_kwargs sets {}, which comes from the conversation", name);
}

}  // namespace

Conversation conversation_of(ConversationRecord record, const std::string& field) {
  Json& messages = record.messages;
  if (!messages.is_array()) fail(ExitCode::input, "{} is {}, not a list of messages", field, shown(messages));
  if (messages.empty()) fail(ExitCode::input, "{} has no messages", field);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    const std::string place = fmt::format("{}[{}]", field, i);
    if (!message.is_object()) fail(ExitCode::input, "{} is {}, not an object", place, shown(message));
    drop_nulls(message);
    if (!message.contains("role") && message.contains("from") && message.contains("value"))
      message = renamed(message, place);
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string())
      throw Error(ExitCode::input, fmt::format("{} has no role", place),
                  "a message needs role and content, or from and value");
    check_content(message, place);
    check_weight(message, place);
  }
  put_system_first(messages, record.system, field);
  if (!record.tools.is_null() && !record.tools.is_array())
    fail(ExitCode::input, "tools is {}, not a list", shown(record.tools));
  if (record.variables.is_null()) record.variables = Json::object();
  check_variables(record.variables);
  return {std::move(messages), std::move(record.tools), std::move(record.variables)};
}

bool is_of_assistant(const Json& message) { return message["role"] == "assistant"; }

bool has_weight(const Json& message) {
  const auto weight = message.find("weight");
  return weight == message.end() || *weight == 1;
}

}  // namespace lockstep
