// What the environment of chat templates has beside its variables: range, namespace, raise_exception …
#pragma once

#include "chat/template_access.hpp"

#include <optional>
#include <string_view>

namespace lockstep::jinja {

/// The function of that name; nothing if there is none.
std::optional<Value> function_named(std::string_view name);

/// Throws TemplateFault, for raise_exception with the message it is given.
Value call_function(const Value& function, const CallArguments& arguments, TemplateMemory& memory);
Value call_joiner(JoinerBody& joiner, const CallArguments& arguments);

}  // namespace lockstep::jinja
