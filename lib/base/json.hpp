// JSON as the project reads and writes it: keys keep their order, numbers that are not finite become null, parse errors
// name the place. Headers that only mention Json include base/json_fwd.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace lockstep {

/// The value in `text`. Throws Error(input) "<origin>: line L, column C: …".
Json parse_json(std::string_view text, const std::string& origin);

/// Compact text on one line, or indented by `indent` spaces; escapes everything, never throws on invalid UTF-8 (it is
/// replaced).
std::string to_text(const Json& value, int indent = -1);

}  // namespace lockstep
