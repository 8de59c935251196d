// A curve, such as loss over steps, as an SVG drawing and as a picture of characters.
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

/// A standalone SVG document, 800 x 450, with axes, round ticks, grid and legend. Deterministic. Local.
std::string curve_svg(const CurveLabels& labels, const std::vector<Series>& series);

enum class Charset { unicode, ascii };  // unicode: braille dots, 2 x 4 a character; ascii: a letter or mark a character

/// A picture for a terminal, braille curves all alike: `columns` wide with the axis, `lines` high without the x axis
/// and legend. Each line ends in a newline. Local.
std::string curve_text(const CurveLabels& labels, const std::vector<Series>& series, int columns, int lines,
                       Charset charset);

}  // namespace lockstep
