// Methods of Python's texts, lists, tuples and dicts, and of loops.
#pragma once

#include "chat/template_access.hpp"

namespace lockstep::jinja {

/// Throws TemplateFault for what is not understood, with the name of the method.
Value call_method(const MethodBody& method, const CallArguments& arguments, TemplateMemory& memory);

}  // namespace lockstep::jinja
