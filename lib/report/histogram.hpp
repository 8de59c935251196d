// How numbers spread: how many lie in each of equally wide bins, and that as an SVG drawing.
#pragma once

#include "report/curve.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct Histogram {
  std::vector<double> edges;  // ascending; of bin i: edges[i] and edges[i + 1], which belongs to the last bin alone
  std::vector<std::int64_t> counts;  // one less than edges
};

/// `bins` of [least, greatest]; of a single value a half to both sides of it.
Histogram empty_histogram(double least, double greatest, std::size_t bins);
/// Counts a number that lies within the edges.
void count_into(Histogram& histogram, double value);

/// A standalone SVG document, 800 x 450, a bar a bin, with axes and round ticks. Deterministic. Local.
std::string histogram_svg(const CurveLabels& labels, const Histogram& histogram);

}  // namespace lockstep
