// Decides when an unknown filter or test is an error: when the template is read, or when it is reached.
#pragma once

#include "jinja/template_syntax.hpp"

namespace lockstep::jinja {

/// Throws TemplateSyntaxFault for the first filter or test that Jinja refuses when it compiles a template. Within an
/// {% if %}, its condition included, or within an expression with `if`, Jinja refuses one only when it is reached.
/// Inside of these, the body of a loop, macro or other block with its own variables is again checked when the template
/// is compiled. Filters that Jinja has and that are not supported here are errors only when they are reached.
void refuse_unknown_builtins(const Body& body);

}  // namespace lockstep::jinja
