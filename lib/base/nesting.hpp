// A limit on the nesting of JSON text. It is checked before the text is parsed into a tree, because printing and
// copying a tree recurse.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Throws Error(input) naming the line if lists and objects in `text` nest deeper than in any file of ours or of
/// models. Local.
void refuse_deep_nesting(std::string_view text, const std::string& origin);

}  // namespace lockstep
