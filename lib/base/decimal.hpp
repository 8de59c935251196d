// Decimal fractions as people write them, such as 0.1 or 1.5, and exact products and quotients with whole numbers.
// Doubles are not exact: 0.1 is not one tenth.
#pragma once

#include <cstdint>

namespace lockstep {

/// Decimal is a number of at least 0, in billionths.
struct Decimal {
  static constexpr std::int64_t one = 1'000'000'000;
  std::int64_t billionths = 0;
  /// Returns the Decimal nearest to `value`, which is from 0 to 2^31. Pure.
  static Decimal nearest(double value);
  bool operator==(const Decimal&) const = default;
};

/// Returns ⌈fraction · whole / by⌉, for by ≥ 1 and whole ≥ 0, or the largest 64-bit value if it does not fit. Pure.
std::int64_t part_up(Decimal fraction, std::int64_t whole, std::int64_t by = 1);

/// Returns ⌊amount / (fraction · whole)⌋, the number of such parts of the whole in an amount of at least 0. Pure.
std::int64_t parts_in(std::int64_t amount, Decimal fraction, std::int64_t whole);

}  // namespace lockstep
