// The document made_from records the sources of a state that no job saved in this form, one JSON line for each step.
#pragma once

#include "base/json_fwd.hpp"
#include "store/manifest.hpp"

#include <string_view>

namespace lockstep {

inline constexpr std::string_view made_from_document = "made_from";

/// Adds a line with the operation `how`, its sources and the name of this program. Lines of the source stay before it.
/// Pure.
void add_made_from(Manifest& manifest, std::string_view how, Json sources);

}  // namespace lockstep
