// JSON as the project reads and writes it: keys keep their order, numbers that are not finite become null, parse errors
// give the line and column. Headers that only mention Json include base/json_fwd.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace lockstep {

/// Returns the value in `text`. Throws Error(input) "<origin>: line L, column C: …".
Json parse_json(std::string_view text, const std::string& origin);

/// Returns compact text on one line, or text indented by `indent` spaces. Escapes everything; replaces invalid UTF-8
/// and does not throw on it.
std::string to_text(const Json& value, int indent = -1);

}  // namespace lockstep
