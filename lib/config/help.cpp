#include "base/text.hpp"
#include "config/faces.hpp"

#include <fmt/format.h>

namespace lockstep {

namespace {

constexpr std::size_t help_width = 100;
constexpr std::size_t help_column = 38;

/// `text` broken between words into lines that end before help_width when they start at `column`; the first line is
/// already indented.
std::string wrapped(const std::string& text, std::size_t column) {
  std::string result;
  std::size_t at = column;
  for (const std::string& word : split(text, ' ')) {
    const bool first = at == column;
    if (!first && at + 1 + word.size() > help_width) {
      result += "\n" + std::string(column, ' ');
      at = column;
    } else if (!first) {
      result += " ";
      ++at;
    }
    result += word;
    at += word.size();
  }
  return result;
}

std::string option_text(const DocumentedOption& option) {
  std::string left = option.letter == '\0' ? "  " : fmt::format("  -{}, ", option.letter);
  left += option.spelling;
  if (option.value == DocumentedOption::Value::next_word) left += " " + option.value_name;
  if (option.value == DocumentedOption::Value::after_equals) left += fmt::format("[={}]", option.value_name);
  const std::string text = option.notes.empty() ? option.help : fmt::format("{} ({})", option.help, option.notes);
  left += left.size() + 2 > help_column ? "\n" + std::string(help_column, ' ')
                                        : std::string(help_column - left.size(), ' ');
  return left + wrapped(text, help_column) + "\n";
}

}  // namespace

std::string help_text(const DocumentedTool& tool) {
  std::string text;
  for (const std::string& form : tool.tool.synopsis)
    text += fmt::format("{} {} {}\n", text.empty() ? "usage:" : "      ", tool.tool.name, form);
  text += fmt::format("\n{}\n", tool.tool.summary);
  if (!tool.positionals.empty()) text += "\narguments\n";
  for (DocumentedOption positional : tool.positionals) {
    positional.value = DocumentedOption::Value::none;
    text += option_text(positional);
  }
  for (const DocumentedSection& section : tool.sections) {
    text += fmt::format("\n{}\n", section.title.empty() ? "options" : section.title);
    for (const DocumentedOption& option : section.options) text += option_text(option);
  }
  return text;
}

}  // namespace lockstep
