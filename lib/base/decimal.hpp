// Fractions as people write them, 0.1 or 1.5, and how often they go into whole numbers: exact, where doubles are not
// (of 0.1, ten make one).
#pragma once

#include <cstdint>

namespace lockstep {

/// A number from 0 on in billionths.
struct Decimal {
  static constexpr std::int64_t one = 1'000'000'000;
  std::int64_t billionths = 0;
  /// The one that is nearest to `value`, which is from 0 to 2^31. Pure.
  static Decimal nearest(double value);
  bool operator==(const Decimal&) const = default;
};

/// ⌈fraction · whole / by⌉, for by ≥ 1 and whole ≥ 0; what 64 bits do not hold is the most that they do. Pure.
std::int64_t part_up(Decimal fraction, std::int64_t whole, std::int64_t by = 1);

/// ⌊amount / (fraction · whole)⌋: how many such parts of the whole lie in an amount from 0 on. Pure.
std::int64_t parts_in(std::int64_t amount, Decimal fraction, std::int64_t whole);

}  // namespace lockstep
