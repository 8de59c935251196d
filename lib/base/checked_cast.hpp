// Narrowing casts of integers from files, options and messages. A value that does not fit is refused, never truncated.
#pragma once

#include "base/error.hpp"

#include <concepts>
#include <limits>
#include <string_view>
#include <utility>

namespace lockstep {

/// Returns `value` in another type. Throws Error(code) "WHAT is N: it has to be from … to …" if it does not fit.
template <std::integral To, std::integral From>
To checked_cast(From value, std::string_view what, ExitCode code = ExitCode::input) {
  if (!std::in_range<To>(value)) {
    fail(code, "{} is {}: it has to be from {} to {}", what, value, std::numeric_limits<To>::min(),
         std::numeric_limits<To>::max());
  }
  return static_cast<To>(value);
}

}  // namespace lockstep
