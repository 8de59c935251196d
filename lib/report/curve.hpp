// Draws curves, such as loss over steps, as an SVG document or as text for a terminal. Axes: report/curve_scale.hpp.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct Series {
  struct Point {
    double x = 0;
    double y = 0;
  };
  std::string name;
  std::vector<Point> points;  // by rising x; points that are not finite leave a gap
};

struct CurveLabels {
  std::string title;
  std::string x;
  std::string y;
};

/// A standalone SVG document with axes, round ticks and grid, and the legend below them. Deterministic. Local.
std::string curve_svg(const CurveLabels& labels, const std::vector<Series>& series);

// unicode: braille dots, 2 x 4 in a character; ascii: one letter or mark in a character.
enum class Charset { unicode, ascii };

/// A picture for a terminal; all braille curves look alike. It is `columns` wide including the y axis, and `lines` high
/// without title, x axis and legend. Each line ends in a newline. Local.
std::string curve_text(const CurveLabels& labels, const std::vector<Series>& series, int columns, int lines,
                       Charset charset);

}  // namespace lockstep
