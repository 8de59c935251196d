// Methods of Python's strings, lists, tuples and dicts, and of loops.
#pragma once

#include "jinja/template_access.hpp"

namespace lockstep::jinja {

/// Calls a method. Throws TemplateFault naming the method if it is not supported.
Value call_method(const MethodBody& method, const CallArguments& arguments, TemplateMemory& memory);

}  // namespace lockstep::jinja
