#include "report/table.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void Table::add(std::vector<std::string> cells) {
  invariant(cells.size() == columns_.size(), "a table row needs one cell for each column");
  rows_.push_back(std::move(cells));
}

std::string Table::text(int indent) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const bool has_titles = std::ranges::any_of(titles, [](const std::string& title) { return !title.empty(); });
  std::vector<std::vector<std::string>> lines;
  if (has_titles) lines.push_back(titles);
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string row(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - width_of(line[i]), ' ');
      row += (i == 0 ? "" : "  ") + (columns_[i].align == Align::right ? padding + line[i] : line[i] + padding);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace lockstep
