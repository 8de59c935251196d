// Which variable each name of a template means. Jinja decides it before a template runs: a frame (the template, a body
// of a loop, a macro …) has the names that it assigns and those that it reads and no outer frame has. So a name that a
// template assigns anywhere in a frame is that frame's, also before the assignment.
#pragma once

#include "chat/template_syntax.hpp"

namespace lockstep::jinja {

/// Fills in places, slots and frames. Throws TemplateSyntaxFault.
void resolve_names(SyntaxTree& tree);

}  // namespace lockstep::jinja
