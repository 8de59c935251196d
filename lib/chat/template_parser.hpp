// Reads a template into a tree: the Jinja of chat templates, without what reaches for other templates.
#pragma once

#include "chat/template_syntax.hpp"

#include <string>
#include <string_view>

namespace lockstep::jinja {

/// Throws TemplateSyntaxFault for what it cannot parse and for what it knows and lacks.
SyntaxTree parse_template(std::string_view source);

}  // namespace lockstep::jinja
