// Integers in JSON that others may have written: what is no integer, or does not fit, is refused, where the library
// would cut it down.
#pragma once

#include "base/checked_cast.hpp"
#include "base/json.hpp"

#include <concepts>
#include <utility>
#include <vector>

namespace lockstep {

/// The integer that `value` is. Throws Error(input), without an origin, if it is none or beyond the type.
template <std::integral Integer>
Integer integer_from(const Json& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<std::int64_t>());
  if (!fits)
    fail(ExitCode::input, "{} where an integer of {} bits is expected",
         value.is_number() ? to_text(value) : value.type_name(), 8 * sizeof(Integer));
  return value.get<Integer>();
}

/// The same for a list of integers.
template <std::integral Integer>
std::vector<Integer> integers_from(const Json& list) {
  if (!list.is_array()) fail(ExitCode::input, "{} where a list of integers is expected", list.type_name());
  std::vector<Integer> integers;
  for (const Json& value : list) integers.push_back(integer_from<Integer>(value));
  return integers;
}

}  // namespace lockstep
