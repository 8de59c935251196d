// Parses a template into a tree (jinja/template_syntax.hpp): the Jinja of chat templates, without inclusion of other
// templates.
#pragma once

#include "jinja/template_syntax.hpp"

#include <string>
#include <string_view>

namespace lockstep::jinja {

/// Throws TemplateSyntaxFault for invalid syntax and for parts of Jinja that are not supported.
SyntaxTree parse_template(std::string_view source);

}  // namespace lockstep::jinja
