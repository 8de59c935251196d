// Histograms with bins of equal width, and their SVG drawing.
#pragma once

#include "report/curve.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct Histogram {
  std::vector<double> edges;         // ascending; bin i is [edges[i], edges[i + 1]), and the last one includes its end
  std::vector<std::int64_t> counts;  // one less than edges
};

/// `bins` empty bins over [least, greatest]; a single value gets 0.5 on both sides.
Histogram empty_histogram(double least, double greatest, std::size_t bins);
/// Counts a number within the edges.
void count_into(Histogram& histogram, double value);

/// A standalone SVG document, 800 x 450, with a bar for each bin, axes and round ticks. Deterministic. Local.
std::string histogram_svg(const CurveLabels& labels, const Histogram& histogram);

}  // namespace lockstep
