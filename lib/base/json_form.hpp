// Describes an error in the form of a JSON value in our words instead of the library's.
#pragma once

#include "base/json.hpp"

#include <string>

namespace lockstep {

/// Returns "the key 'shape' is missing", "a value is number where string is expected". Local.
std::string form_problem(const nlohmann::json::exception& error);

}  // namespace lockstep
