// What users of other trainers would type, and what it is called here: for suggestions only, nothing is accepted under
// two names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Dotted names of the options that `key` (a name without its section) may mean, the likelier ones first; options of
/// other programs among them. Local.
std::vector<std::string_view> options_meant_by(std::string_view key);

/// The name of the section that `name` may mean; empty: none that is known. Local.
std::string_view section_meant_by(std::string_view name);

/// The choices that `value` may mean: "float32" is "fp32". Local.
std::vector<std::string_view> choices_meant_by(std::string_view value);

}  // namespace lockstep
