#include "report/curve_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

constexpr double width = 800;
constexpr double height = 450;
constexpr double left = 80;
constexpr double right = 780;
constexpr double top = 40;
constexpr double bottom = 400;
constexpr std::array<const char*, 6> colors{"#1f6fb4", "#d65f1e", "#2c8c3c", "#8b4fa8", "#b03a3a", "#5d6670"};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

double at_x(const CurveScale& scale, double x) { return left + scale.x.fraction(x) * (right - left); }
double at_y(const CurveScale& scale, double y) { return bottom - scale.y.fraction(y) * (bottom - top); }

std::string axes(const CurveScale& scale, const CurveLabels& labels) {
  std::string svg;
  for (const double x : ticks(scale.x, 8)) {
    svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n", at_x(scale, x),
                       top, bottom);
    svg +=
        fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", at_x(scale, x), bottom + 18, x);
  }
  for (const double y : ticks(scale.y, 6)) {
    svg += fmt::format("<line class=\"grid\" x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\"/>\n", at_y(scale, y),
                       left, right);
    svg +=
        fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n", left - 8, at_y(scale, y) + 4, y);
  }
  svg += fmt::format("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", left, top, right - left,
                     bottom - top);
  svg += fmt::format("<text class=\"title\" x=\"{}\" y=\"24\" text-anchor=\"middle\">{}</text>\n", (left + right) / 2,
                     escaped(labels.title));
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (left + right) / 2, height - 10,
                     escaped(labels.x));
  svg += fmt::format("<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     (top + bottom) / 2, escaped(labels.y));
  return svg;
}

std::string path_of(const CurveScale& scale, const Series& series) {
  std::string path;
  bool pen_down = false;
  for (const Series::Point& point : series.points) {
    const bool finite = std::isfinite(point.x) && std::isfinite(point.y);
    if (finite)
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", at_x(scale, point.x), at_y(scale, point.y));
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
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>.grid{{stroke:#ddd}}.frame{{fill:none;stroke:#888}}.title{{font-size:16px}}.curve{{fill:none;stroke-"
      "width:1.5}}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, height);
  svg += axes(scale, labels);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* const color = colors[i % colors.size()];
    svg += fmt::format("<path class=\"curve\" stroke=\"{}\" d=\"{}\"/>\n", color, path_of(scale, series[i]));
    const double y = top + 20 + 18 * static_cast<double>(i);
    svg += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       right - 150, y - 4, right - 126, y - 4, color);
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", right - 120, y, escaped(series[i].name));
  }
  return svg + "</svg>\n";
}

}  // namespace lockstep
