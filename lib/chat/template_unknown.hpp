// When a filter or test that nobody knows is an error: as the template is read, or as it is reached.
#pragma once

#include "chat/template_syntax.hpp"

namespace lockstep::jinja {

/// Throws TemplateSyntaxFault for the first filter or test that Jinja refuses as it compiles a template. Within an
/// {% if %}, its condition included, or an expression with `if`, Jinja refuses one only once it is reached, but within
/// a loop, macro or other block with variables of its own in there as it compiles again. Filters that Jinja has and
/// that are not understood here are errors once they are reached.
void refuse_unknown_builtins(const Body& body);

}  // namespace lockstep::jinja
