// The frame of a chart as an SVG document: axes with round ticks, grid and labels. Curves (report/curve.hpp) and
// histograms (report/histogram.hpp) draw into it.
#pragma once

#include "report/curve_scale.hpp"

#include <string>

namespace lockstep {

/// Size of the picture and place of the frame in it.
struct ChartFrame {
  static constexpr double width = 800, height = 450, left = 80, right = 780, top = 40, bottom = 400;
};

double chart_x(const CurveScale& scale, double x);
double chart_y(const CurveScale& scale, double y);
std::string svg_text(const std::string& text);  // with its special characters escaped
/// Elements below the frame and its labels, and the height that they take.
struct ChartLegend {
  std::string elements;
  double height = 0;
};
/// A standalone document: the frame, its grid, the elements of `drawing` over it, and the legend. Deterministic.
std::string chart_svg(const CurveScale& scale, const CurveLabels& labels, const std::string& drawing,
                      const ChartLegend& legend = {});

}  // namespace lockstep
