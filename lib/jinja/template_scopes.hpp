// Resolves names to variables. Jinja does this before a template runs: a frame (the template, the body of a loop, a
// macro …) has the names that it assigns, and the names that it reads and no outer frame has. A name that is assigned
// anywhere in a frame therefore belongs to it even before the assignment.
#pragma once

#include "jinja/template_syntax.hpp"

namespace lockstep::jinja {

/// Fills in places, slots and frames of the tree. Throws TemplateSyntaxFault.
void resolve_names(SyntaxTree& tree);

}  // namespace lockstep::jinja
