// Aligned tables in text, for settings in force and summaries.
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
  /// Columns without any title print no header.
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell a column; throws Error(bug) otherwise.
  void add(std::vector<std::string> cells);
  /// Lines ending in newlines, each after `indent` blanks, columns two blanks apart, none at the end of a line.
  std::string text(int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// The code points of UTF-8 text: its width in a terminal, wide and combining characters aside.
std::size_t width_of(std::string_view text);

}  // namespace lockstep
