// Aligned tables as text, for effective settings and summaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  /// If no column has a title, no header is printed.
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Adds a row with one cell for each column; throws Error(bug) otherwise.
  void add(std::vector<std::string> cells);
  /// The lines of the table, each ending in a newline: `indent` blanks, then the columns with two blanks between; no
  /// blanks at the end.
  std::string text(int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Number of code points of UTF-8 text: its width in a terminal, except for wide and combining characters.
std::size_t width_of(std::string_view text);

}  // namespace lockstep
