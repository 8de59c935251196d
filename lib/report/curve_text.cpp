#include "report/curve_scale.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep {

namespace {

constexpr std::array<char, 6> marks{'*', 'o', '+', 'x', '#', '@'};

/// Dots on a fine grid, shown as braille: 2 x 4 dots a character; or as marks: one dot a character.
class Canvas {
 public:
  Canvas(int columns, int lines, Charset charset)
      : columns_(columns), lines_(lines), charset_(charset), cells_(static_cast<std::size_t>(columns * lines), 0) {}
  int dots_wide() const { return columns_ * (charset_ == Charset::unicode ? 2 : 1); }
  int dots_high() const { return lines_ * (charset_ == Charset::unicode ? 4 : 1); }

  void dot(int x, int y, std::size_t series) {
    if (x < 0 || y < 0 || x >= dots_wide() || y >= dots_high()) return;
    if (charset_ == Charset::ascii) {
      cell(x, y) = marks[series % marks.size()];
      return;
    }
    static constexpr std::array<std::array<int, 2>, 4> bits{{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    cell(x / 2, y / 4) |= bits[static_cast<std::size_t>(y % 4)][static_cast<std::size_t>(x % 2)];
  }

  std::string line(int y) {
    std::string text;
    for (int x = 0; x < columns_; ++x) {
      const int value = cell(x, y);
      if (value == 0) {
        text += ' ';
      } else if (charset_ == Charset::ascii) {
        text += static_cast<char>(value);
      } else {  // U+2800 and its 8 dots, in UTF-8
        text +=
            {static_cast<char>(0xE2), static_cast<char>(0xA0 | value >> 6), static_cast<char>(0x80 | (value & 0x3F))};
      }
    }
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

 private:
  int& cell(int x, int y) { return cells_[static_cast<std::size_t>(y * columns_ + x)]; }
  int columns_;
  int lines_;
  Charset charset_;
  std::vector<int> cells_;
};

int dot_at(double fraction, int dots) { return static_cast<int>(std::lround(fraction * (dots - 1))); }

void draw(Canvas& canvas, const CurveScale& scale, const Series& series, std::size_t index) {
  const Series::Point* before = nullptr;
  for (const Series::Point& point : series.points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) {
      before = nullptr;
      continue;
    }
    const auto x_of = [&](const Series::Point& p) { return dot_at(scale.x.fraction(p.x), canvas.dots_wide()); };
    const auto y_of = [&](const Series::Point& p) {
      return canvas.dots_high() - 1 - dot_at(scale.y.fraction(p.y), canvas.dots_high());
    };
    const Series::Point& from = before == nullptr ? point : *before;
    const int steps = std::max({1, std::abs(x_of(point) - x_of(from)), std::abs(y_of(point) - y_of(from))});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      canvas.dot(static_cast<int>(std::lround(x_of(from) + part * (x_of(point) - x_of(from)))),
                 static_cast<int>(std::lround(y_of(from) + part * (y_of(point) - y_of(from)))), index);
    }
    before = &point;
  }
}

}  // namespace

std::string curve_text(const CurveLabels& labels, const std::vector<Series>& series, int columns, int lines,
                       Charset charset) {
  constexpr int axis_width = 10;  // "  1.2345 |"
  const CurveScale scale = scale_of(series);
  Canvas canvas(std::max(columns - axis_width, 10), std::max(lines, 3), charset);
  for (std::size_t i = 0; i < series.size(); ++i) draw(canvas, scale, series[i], i);
  const int height = std::max(lines, 3);
  std::string text = fmt::format("{}\n", labels.title);
  for (int y = 0; y < height; ++y) {
    const double value = scale.y.high - (scale.y.high - scale.y.low) * y / (height - 1);
    const bool labelled = y == 0 || y == height - 1 || y == height / 2;
    const std::string row = canvas.line(y);
    text += fmt::format("{:>8} |{}\n", labelled ? fmt::format("{:.4g}", value) : "", row);
  }
  const int wide = std::max(columns - axis_width, 10);
  text += fmt::format("{:>8} +{}\n", "", std::string(static_cast<std::size_t>(wide), '-'));
  const std::string low = fmt::format("{:g}", scale.x.low);
  const std::string high = fmt::format("{:g} {}", scale.x.high, labels.x);
  const auto gap = static_cast<std::size_t>(std::max(1, wide - static_cast<int>(width_of(low) + width_of(high))));
  text += fmt::format("{:>10}{}{}{}\n", "", low, std::string(gap, ' '), high);
  if (series.size() > 1 && charset == Charset::ascii) {
    for (std::size_t i = 0; i < series.size(); ++i)
      text += fmt::format("{:>10}{} {}\n", "", marks[i % marks.size()], series[i].name);
  }
  return text;
}

}  // namespace lockstep
