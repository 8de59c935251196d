// Declares the name Json without the cost of its header, for headers that only pass it along. The functions:
// base/json.hpp.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace lockstep {

using Json = nlohmann::ordered_json;

}  // namespace lockstep
