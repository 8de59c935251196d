// The document made_from, a line of JSON each time: what a state was made of that no job has saved so.
#pragma once

#include "base/json_fwd.hpp"
#include "store/manifest.hpp"

#include <string_view>

namespace lockstep {

inline constexpr std::string_view made_from_document = "made_from";

/// Adds a line to it: how it was made and of what, by what this program calls itself. What it tells already of what was
/// read stays before it. Pure.
void add_made_from(Manifest& manifest, std::string_view how, Json sources);

}  // namespace lockstep
