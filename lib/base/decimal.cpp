#include "base/decimal.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

__extension__ using Int128 = __int128;

std::int64_t narrowed(Int128 value) {
  return static_cast<std::int64_t>(std::min<Int128>(value, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

Decimal Decimal::nearest(double value) {
  constexpr double most = 2147483648.0;
  invariant(value >= 0 && value <= most, "a decimal fraction must be from 0 to 2^31");
  return {std::llround(value * static_cast<double>(one))};
}

std::int64_t part_up(Decimal fraction, std::int64_t whole, std::int64_t by) {
  const Int128 divisor = Int128{by} * Decimal::one;
  return narrowed((Int128{fraction.billionths} * whole + divisor - 1) / divisor);
}

std::int64_t parts_in(std::int64_t amount, Decimal fraction, std::int64_t whole) {
  invariant(fraction.billionths > 0 && whole > 0, "a part needs a fraction and a whole above 0");
  return narrowed(Int128{amount} * Decimal::one / (Int128{fraction.billionths} * whole));
}

}  // namespace lockstep
