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
  constexpr double right = ChartFrame::right, top = ChartFrame::top;
  std::string svg;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* const color = colors[i % colors.size()];
    svg += fmt::format("<path class=\"curve\" stroke=\"{}\" d=\"{}\"/>\n", color, path_of(scale, series[i]));
    const double y = top + 20 + 18 * static_cast<double>(i);
    svg += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       right - 150, y - 4, right - 126, y - 4, color);
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", right - 120, y, svg_text(series[i].name));
  }
  return chart_svg(scale, labels, svg);
}

}  // namespace lockstep
