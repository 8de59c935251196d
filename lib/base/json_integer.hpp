// Integers in JSON that others may have written. A value that is not an integer, or does not fit, is refused; the
// library would truncate it.
#pragma once

#include "base/checked_cast.hpp"
#include "base/json.hpp"

#include <concepts>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns `value` as an integer. Throws Error(input) "WHAT is …", without an origin, if it is not an integer or out of
/// range.
template <std::integral Integer>
Integer integer_from(const Json& value, std::string_view what = "a value") {
  if (value.is_number_unsigned()) return checked_cast<Integer>(value.get<std::uint64_t>(), what);
  if (value.is_number_integer()) return checked_cast<Integer>(value.get<std::int64_t>(), what);
  fail(ExitCode::input, "{} is {} where an integer is expected", what,
       value.is_number() ? to_text(value) : value.type_name());
}

/// Returns a list of integers. Throws as integer_from does, and if `list` is not a list.
template <std::integral Integer>
std::vector<Integer> integers_from(const Json& list) {
  if (!list.is_array()) fail(ExitCode::input, "{} where a list of integers is expected", list.type_name());
  std::vector<Integer> integers;
  for (const Json& value : list) integers.push_back(integer_from<Integer>(value));
  return integers;
}

}  // namespace lockstep
