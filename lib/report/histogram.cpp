#include "report/histogram.hpp"

#include "report/chart_svg.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

/// Half the width of a bin: a difference of halves is a number where that of the edges may be beyond all of them.
double half_step(double least, double greatest, std::size_t bins) {
  return (greatest / 2 - least / 2) / static_cast<double>(bins);
}

}  // namespace

Histogram empty_histogram(double least, double greatest, std::size_t bins) {
  if (least == greatest) {
    least -= 0.5;
    greatest += 0.5;
  }
  Histogram histogram{{}, std::vector<std::int64_t>(bins, 0)};
  const double half = half_step(least, greatest, bins);
  for (std::size_t i = 0; i < bins; ++i)
    histogram.edges.push_back(least + half * static_cast<double>(i) + half * static_cast<double>(i));
  histogram.edges.push_back(greatest);
  return histogram;
}

void count_into(Histogram& histogram, double value) {
  const double least = histogram.edges.front();
  const double half = half_step(least, histogram.edges.back(), histogram.counts.size());
  const double bin = half > 0 ? (value / 2 - least / 2) / half : 0;
  const auto last = static_cast<double>(histogram.counts.size() - 1);
  ++histogram.counts[static_cast<std::size_t>(std::clamp(bin, 0.0, last))];
}

std::string histogram_svg(const CurveLabels& labels, const Histogram& histogram) {
  const std::int64_t most = *std::ranges::max_element(histogram.counts);
  CurveScale scale{{histogram.edges.front(), histogram.edges.back()},
                   {0, static_cast<double>(std::max<std::int64_t>(most, 1))}};
  if (scale.x.low == scale.x.high) scale.x = scale_of({{"", {{scale.x.low, 0}}}}).x;
  std::string bars;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double left = chart_x(scale, histogram.edges[i]), right = chart_x(scale, histogram.edges[i + 1]);
    const double top = chart_y(scale, static_cast<double>(histogram.counts[i]));
    bars += fmt::format(
        "<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}</title></rect>\n",
        left, top, right - left, chart_y(scale, 0) - top,
        svg_text(fmt::format("{:.4g} to {:.4g}: {}", histogram.edges[i], histogram.edges[i + 1], histogram.counts[i])));
  }
  return chart_svg(scale, labels, bars);
}

}  // namespace lockstep
