// What the configuration files of all programs say, so that one file serves them all: each program passes over what
// only others read. Which options a program has: its own *_config.hpp.
#pragma once

#include "config/option.hpp"

#include <string>

namespace lockstep {

/// The options of the five programs; a path stands here as often as programs have it. Their values are nobody's. Null
/// for a program that is none of the five. Local.
const Declaration* options_of_all_programs(const std::string& program);

}  // namespace lockstep
