// The axes of a curve: the ranges of its points, and round numbers to mark on them.
#pragma once

#include "report/curve.hpp"

#include <vector>

namespace lockstep {

struct Range {
  double low = 0;
  double high = 1;
  double fraction(double value) const { return (value - low) / (high - low); }
};

struct CurveScale {
  Range x;
  Range y;
};

/// The ranges of all finite points. A range is never empty: a single value gets a margin.
CurveScale scale_of(const std::vector<Series>& series);

/// About `wanted` multiples of 1, 2 or 5 times a power of ten within the range.
std::vector<double> ticks(const Range& range, int wanted);

}  // namespace lockstep
