// Terms of other trainers and our names for them. They serve suggestions only; an option has a single accepted
// name. The table stands in config/synonyms.cpp: this room knows no option by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns the dotted names of options that `key` (a name without its section) may mean, the most likely first. Options
/// of other programs are included. Local.
std::vector<std::string_view> options_meant_by(std::string_view key);

/// Returns the name of the section that `name` may mean; empty if none is known. Local.
std::string_view section_meant_by(std::string_view name);

/// Returns the choices that `value` may mean: "float32" is "fp32". Local.
std::vector<std::string_view> choices_meant_by(std::string_view value);

}  // namespace lockstep
