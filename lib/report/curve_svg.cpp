#include "report/chart_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

constexpr std::array<const char*, 6> colors{"#1f6fb4", "#d65f1e", "#2c8c3c", "#8b4fa8", "#b03a3a", "#5d6670"};

std::string path_of(const CurveScale& scale, const Series& series) {
  std::string path;
  bool pen_down = false;
  for (const Series::Point& point : series.points) {
    const bool finite = std::isfinite(point.x) && std::isfinite(point.y);
    if (finite)
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", chart_x(scale, point.x), chart_y(scale, point.y));
    pen_down = finite;
  }
  return path;
}

const char* color_of(std::size_t series) { return colors[series % colors.size()]; }

/// The names of the curves side by side, in as many lines as they need.
ChartLegend legend_of(const std::vector<Series>& series) {
  constexpr double line_height = 18, sample = 24, gap = 24, character = 7;
  ChartLegend legend;
  double x = ChartFrame::left;
  legend.height = line_height;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double wide = sample + 6 + character * static_cast<double>(series[i].name.size());
    if (x + wide > ChartFrame::right && x > ChartFrame::left) {
      x = ChartFrame::left;
      legend.height += line_height;
    }
    const double y = ChartFrame::height + legend.height - 8;
    legend.elements += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                                   x, y - 4, x + sample, y - 4, color_of(i));
    legend.elements += fmt::format("<text class=\"legend\" x=\"{}\" y=\"{}\">{}</text>\n", x + sample + 6, y,
                                   svg_text(series[i].name));
    x += wide + gap;
  }
  return legend;
}

}  // namespace

CurveScale scale_of(const std::vector<Series>& series) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CurveScale scale{{infinity, -infinity}, {infinity, -infinity}};
  for (const Series& one : series) {
    for (const Series::Point& point : one.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      scale.x = {std::min(scale.x.low, point.x), std::max(scale.x.high, point.x)};
      scale.y = {std::min(scale.y.low, point.y), std::max(scale.y.high, point.y)};
    }
  }
  for (Range* const range : {&scale.x, &scale.y}) {
    if (range->low > range->high) *range = {0, 1};
    if (range->low == range->high) {
      const double margin = std::max(std::abs(range->low) * 0.1, 1e-9);
      *range = {range->low - margin, range->high + margin};
    }
  }
  return scale;
}

std::vector<double> ticks(const Range& range, int wanted) {
  const double rough = (range.high - range.low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double factor = rough / power <= 1 ? 1 : rough / power <= 2 ? 2 : rough / power <= 5 ? 5 : 10;
  const double step = factor * power;
  std::vector<double> result;
  const double first = std::ceil(range.low / step - 1e-9);
  for (int i = 0; (first + i) * step <= range.high + 1e-9 * step; ++i) result.push_back((first + i) * step);
  return result;
}

std::string curve_svg(const CurveLabels& labels, const std::vector<Series>& series) {
  const CurveScale scale = scale_of(series);
  std::string curves;
  for (std::size_t i = 0; i < series.size(); ++i)
    curves += fmt::format("<path class=\"curve\" stroke=\"{}\" d=\"{}\"/>\n", color_of(i), path_of(scale, series[i]));
  return chart_svg(scale, labels, curves, legend_of(series));
}

}  // namespace lockstep
