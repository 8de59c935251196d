#include "report/chart_svg.hpp"

#include <fmt/format.h>

namespace lockstep {

namespace {

constexpr double width = ChartFrame::width, height = ChartFrame::height;
constexpr double left = ChartFrame::left, right = ChartFrame::right;
constexpr double top = ChartFrame::top, bottom = ChartFrame::bottom;

std::string axes(const CurveScale& scale, const CurveLabels& labels) {
  std::string svg;
  for (const double x : ticks(scale.x, 8)) {
    svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n",
                       chart_x(scale, x), top, bottom);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", chart_x(scale, x),
                       bottom + 18, x);
  }
  for (const double y : ticks(scale.y, 6)) {
    svg += fmt::format("<line class=\"grid\" x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\"/>\n",
                       chart_y(scale, y), left, right);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n", left - 8, chart_y(scale, y) + 4,
                       y);
  }
  svg += fmt::format("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", left, top, right - left,
                     bottom - top);
  svg += fmt::format("<text class=\"title\" x=\"{}\" y=\"24\" text-anchor=\"middle\">{}</text>\n", (left + right) / 2,
                     svg_text(labels.title));
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (left + right) / 2, height - 10,
                     svg_text(labels.x));
  svg += fmt::format("<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     (top + bottom) / 2, svg_text(labels.y));
  return svg;
}

}  // namespace

double chart_x(const CurveScale& scale, double x) { return left + scale.x.fraction(x) * (right - left); }
double chart_y(const CurveScale& scale, double y) { return bottom - scale.y.fraction(y) * (bottom - top); }

std::string svg_text(const std::string& text) {
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

std::string chart_svg(const CurveScale& scale, const CurveLabels& labels, const std::string& drawing,
                      const ChartLegend& legend) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n"
             "<style>.grid{{stroke:#ddd}}.frame{{fill:none;stroke:#888}}.title{{font-size:16px}}.curve{{fill:none;"
             "stroke-width:1.5}}.bar{{fill:#1f6fb4;stroke:white;stroke-width:0.5}}</style>\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
             width, height + legend.height) +
         axes(scale, labels) + drawing + legend.elements + "</svg>\n";
}

}  // namespace lockstep
