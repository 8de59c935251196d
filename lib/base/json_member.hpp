// Finds a member of an object that simdjson has parsed. If a name occurs twice the last one counts, as in Python and in
// base/json.hpp; simdjson's own look-up returns the first.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>

namespace lockstep {

/// The member; nothing if the object has none of this name. A null counts as a member.
inline std::optional<simdjson::dom::element> member_of(const simdjson::dom::object& object, std::string_view name) {
  std::optional<simdjson::dom::element> found;
  for (const auto& [key, value] : object)
    if (key == name) found = value;
  return found;
}

}  // namespace lockstep
