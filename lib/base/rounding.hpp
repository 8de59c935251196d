// Integer division and multiples, rounded up.
#pragma once

#include <concepts>
#include <type_traits>

namespace lockstep {

template <std::integral A, std::integral B>
constexpr std::common_type_t<A, B> ceil_div(A value, B by) {
  return (value + by - 1) / by;
}

/// The smallest multiple of `granule` that is not below `value`.
template <std::integral A, std::integral B>
constexpr std::common_type_t<A, B> rounded_up(A value, B granule) {
  return ceil_div(value, granule) * granule;
}

}  // namespace lockstep
