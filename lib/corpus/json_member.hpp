// A member of an object that simdjson has parsed, of a name given twice the last, as in Python and in base/json.hpp.
// The parser's own look-ups stop at the first.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>

namespace lockstep {

/// Nothing if the object has no such member; null counts as one.
inline std::optional<simdjson::dom::element> member_of(const simdjson::dom::object& object, std::string_view name) {
  std::optional<simdjson::dom::element> found;
  for (const auto& [key, value] : object)
    if (key == name) found = value;
  return found;
}

}  // namespace lockstep
