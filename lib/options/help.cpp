#include "base/error.hpp"
#include "base/text.hpp"
#include "options/faces.hpp"
#include "options/suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::size_t help_width = 100;
constexpr std::size_t brief_column = 28;  // a brief of 72 characters ends with the line

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

std::string with_value(const DocumentedOption& option) {
  std::string text = option.spelling;
  if (option.value == DocumentedOption::Value::next_word) text += " " + option.value_name;
  if (option.value == DocumentedOption::Value::after_equals) text += fmt::format("[={}]", option.value_name);
  return text;
}

/// `left`, and `text` beside it from brief_column on, or below it.
std::string row(std::string left, const std::string& text) {
  left += left.size() + 2 > brief_column ? "\n" + std::string(brief_column, ' ')
                                         : std::string(brief_column - left.size(), ' ');
  return left + wrapped(text, brief_column) + "\n";
}

/// An option in a list: its value, its brief and its notes.
std::string listed(const DocumentedOption& option) {
  const std::string letter = option.letter == '\0' ? "" : fmt::format("-{}, ", option.letter);
  const std::string notes = option.notes.empty() ? "" : fmt::format(" ({})", option.notes);
  return row("  " + letter + with_value(option), option.brief + notes);
}

std::string positionals_text(const DocumentedTool& tool) {
  if (tool.positionals.empty()) return "";
  std::string text = "\narguments\n";
  for (DocumentedOption positional : tool.positionals) {
    positional.value = DocumentedOption::Value::none;
    text += row("  " + positional.spelling, positional.brief);
  }
  return text;
}

std::string usage_text(const DocumentedTool& tool) {
  std::string text;
  for (const std::string& form : tool.tool.synopsis)
    text += fmt::format("{} {} {}\n", text.empty() ? "usage:" : "      ", tool.tool.name, form);
  return fmt::format("{}\n{}\n{}", text, tool.tool.summary, positionals_text(tool));
}

std::string section_text(const DocumentedSection& section) {
  std::string text = fmt::format("\n{}\n", section.title.empty() ? "options" : section.title);
  for (const DocumentedOption& option : section.options) text += listed(option);
  return text;
}

/// One screen: the options of a first use, and where the others are.
std::string overview(const DocumentedTool& tool) {
  const std::vector<std::string>& first = tool.tool.first_options;
  std::string text = usage_text(tool) + "\noptions to begin with\n";
  std::string others;
  for (const DocumentedSection& section : tool.sections) {
    bool all = !section.options.empty();
    for (const DocumentedOption& option : section.options) {
      const bool shown = first.empty() ? section.name == "general"
                                       : std::ranges::find(first, option.spelling.substr(2)) != first.end();
      if (shown) text += row("  " + option.spelling, option.brief);
      all = all && shown;
    }
    const std::string title = section.title.empty() ? "general: other options" : section.title;
    if (!all) others += row("  " + section.name, title.substr(section.name.size() + 2));
  }
  text += "\nsections of options\n" + others;
  return text + fmt::format(
                    "\n--help=SECTION lists a section, --help=OPTION explains an option, --help=all lists everything.\n"
                    "Manual: man {}\n",
                    tool.tool.name);
}

/// The values of a choice, each with its phrase.
std::string choices_text(const DocumentedOption& option) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < option.phrases.size(); ++i) width = std::max(width, option.choices[i].size());
  std::string text;
  for (std::size_t i = 0; i < option.phrases.size(); ++i)
    text += fmt::format("      {:{}}  {}\n", option.choices[i], width, wrapped(option.phrases[i], width + 8));
  return text;
}

/// An option with everything that its declaration says.
std::string explained(const DocumentedOption& option) {
  std::string text = with_value(option) + "\n    " + wrapped(option.brief, 4) + "\n" + choices_text(option);
  for (const std::string& part : {option.details, option.notes}) {
    if (!part.empty()) text += "    " + wrapped(part, 4) + "\n";
  }
  if (!option.on_resume.empty()) text += "    " + wrapped(option.on_resume, 4) + "\n";
  return text;
}

bool is_called(const DocumentedOption& option, const std::string& topic) {
  return option.spelling == "--" + topic || option.spelling == topic || (!option.key.empty() && option.key == topic);
}

}  // namespace

std::string help_text(const DocumentedTool& tool, const std::string& topic) {
  if (topic == help_overview) return overview(tool);
  std::string text = topic == help_all ? usage_text(tool) : "";
  std::vector<std::string> topics{std::string(help_all)};
  std::string found;  // an option and a section may have one name
  for (const DocumentedOption& option : tool.positionals) {
    if (is_called(option, topic)) return explained(option);
  }
  for (const DocumentedSection& section : tool.sections) {
    if (topic == help_all) {
      text += section_text(section);
      continue;
    }
    if (topic == section.name) found += (found.empty() ? "" : "\n") + section_text(section).substr(1);
    topics.push_back(section.name);
    for (const DocumentedOption& option : section.options) {
      if (is_called(option, topic)) found += explained(option);
      topics.push_back(option.spelling.substr(2));
    }
  }
  if (!found.empty()) return found;
  if (!text.empty()) return text;
  const std::optional<std::string> meant = suggested_choice(topics, topic);
  throw Error(ExitCode::usage,
              fmt::format("--help={}: no section and no option of {} has this name", topic, tool.tool.name),
              meant ? fmt::format("did you mean --help={}?", *meant) : tool.tool.name + " --help lists the sections");
}

}  // namespace lockstep
