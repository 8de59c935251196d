#include "base/text.hpp"
#include "config/faces.hpp"

#include <fmt/format.h>

#include <cctype>

namespace lockstep {

namespace {

/// Text as mdoc reads it: backslashes, hyphens and quotes kept as they are, no line taken for a macro.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '"') {
      result += "\\(dq";
    } else {
      result += c;
    }
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

/// An argument of a macro: quoted if it has blanks or marks that macros treat as punctuation.
std::string argument(const std::string& text) {
  const bool plain = text.find_first_of(" \t|()[]{}.,:;!?\"") == std::string::npos;
  return plain ? escaped(text) : "\"" + escaped(text) + "\"";
}

std::string flag(const DocumentedOption& option) {
  std::string line = fmt::format("Fl {}", argument(option.spelling.substr(1)));
  if (option.value == DocumentedOption::Value::next_word) line += " Ar " + argument(option.value_name);
  if (option.value == DocumentedOption::Value::after_equals) line += fmt::format(" Ns Oo = Ns Ar {} Oc", argument(option.value_name));
  return option.letter == '\0' ? line : fmt::format("Fl {} , {}", option.letter, line);
}

std::string sentence(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return escaped(text) + ".\n";
}

std::string item(const std::string& head, const DocumentedOption& option) {
  return fmt::format(".It {}\n{}{}", head, sentence(option.help), option.notes.empty() ? "" : sentence(option.notes));
}

}  // namespace

std::string mdoc_synopsis(const DocumentedTool& tool) {
  std::string text;
  for (const std::string& form : tool.tool.synopsis) {
    text += ".Nm\n";
    for (std::string word : split(form, ' ')) {
      const bool optional = word.starts_with('[') && word.ends_with(']');
      if (optional) word = word.substr(1, word.size() - 2);
      std::string macro = word.starts_with("--") ? "Fl " + argument(word.substr(1)) : "Ar " + argument(word);
      text += optional ? ".Op " + macro + "\n" : "." + macro + "\n";
    }
  }
  return text;
}

std::string mdoc_options(const DocumentedTool& tool) {
  std::string text;
  if (!tool.positionals.empty()) {
    text += ".Bl -tag -width Ds\n";
    for (const DocumentedOption& positional : tool.positionals) text += item("Ar " + argument(positional.spelling), positional);
    text += ".El\n";
  }
  for (const DocumentedSection& section : tool.sections) {
    if (!section.title.empty()) text += fmt::format(".Ss {}\n", escaped(section.title));
    text += ".Bl -tag -width Ds\n";
    for (const DocumentedOption& option : section.options) text += item(flag(option), option);
    text += ".El\n";
  }
  return text;
}

}  // namespace lockstep
