// The options of all programs together, so that one configuration file serves all of them. A program ignores options
// that only others have. Options of one program: its own *_config.hpp.
#pragma once

#include "options/option.hpp"

#include <string>

namespace lockstep {

/// Returns the options of the five programs; a path occurs once for each program that has it. The bound values have no
/// use. Returns nullptr if `program` is none of the five. Local.
const Declaration* options_of_all_programs(const std::string& program);

}  // namespace lockstep
