// Functions in the environment of chat templates: range, namespace, raise_exception …
#pragma once

#include "jinja/template_access.hpp"

#include <optional>
#include <string_view>

namespace lockstep::jinja {

/// The function of that name; nothing if there is none.
std::optional<Value> function_named(std::string_view name);

/// Throw TemplateFault; raise_exception throws it with its argument as the message.
Value call_function(const Value& function, const CallArguments& arguments, TemplateMemory& memory);
Value call_joiner(JoinerBody& joiner, const CallArguments& arguments);

}  // namespace lockstep::jinja
