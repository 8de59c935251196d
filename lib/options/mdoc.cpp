#include "base/text.hpp"
#include "options/faces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace lockstep {

namespace {

/// An argument of a macro: quoted if it has blanks or marks that macros treat as punctuation.
std::string argument(const std::string& text) {
  const bool plain = text.find_first_of(" \t|()[]{}.,:;!?\"") == std::string::npos;
  return plain ? mdoc_text(text) : "\"" + mdoc_text(text) + "\"";
}

std::string flag(const DocumentedOption& option) {
  std::string line = fmt::format("Fl {}", argument(option.spelling.substr(1)));
  if (option.value == DocumentedOption::Value::next_word) line += " Ar " + argument(option.value_name);
  if (option.value == DocumentedOption::Value::after_equals)
    line += fmt::format(" Ns Oo = Ns Ar {} Oc", argument(option.value_name));
  return option.letter == '\0' ? line : fmt::format("Fl {} , {}", option.letter, line);
}

/// The sentences of a text, each on a line of its own. One that begins with a value keeps its case.
std::string sentences(const std::string& text) {
  std::string lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(". ", begin), text.size());
    lines += mdoc_text(text.substr(begin, end - begin)) + ".\n";
    begin = end + 2;
  }
  return lines;
}

std::string item(const std::string& head, const DocumentedOption& option) {
  std::string text = fmt::format(".It {}\n{}", head, sentences(capitalised(option.brief)));
  if (!option.phrases.empty()) {
    text += ".Bl -tag -width Ds -compact\n";
    for (std::size_t i = 0; i < option.phrases.size(); ++i)
      text += fmt::format(".It Cm {}\n{}", argument(option.choices[i]), sentences(capitalised(option.phrases[i])));
    text += ".El\n";
  }
  if (!option.details.empty()) text += sentences(option.details);
  if (!option.notes.empty()) text += sentences(capitalised(option.notes));
  return text;
}

/// What stands behind the key in a file, where a flag has a value as well.
std::string value_of(const DocumentedOption& option) {
  if (!option.value_name.empty()) return option.value_name;
  return option.spelling.starts_with("--") ? "BOOL" : option.spelling;  // a positional is shown as its value
}

/// The options of a section that files may set, or nothing.
std::string keys_of(const DocumentedSection& section) {
  std::string text;
  for (const DocumentedOption& option : section.options) {
    if (option.key.empty()) continue;
    text += item(fmt::format("Cm {} : Ar {}", argument(option.key), argument(value_of(option))), option);
    if (!option.on_resume.empty()) text += sentences(capitalised(option.on_resume));
  }
  return text.empty()
             ? ""
             : fmt::format("{}.Bl -tag -width Ds\n{}.El\n",
                           section.title.empty() ? "" : fmt::format(".Ss {}\n", mdoc_text(section.title)), text);
}

}  // namespace

std::string capitalised(std::string text) {
  const std::string word = text.substr(0, text.find_first_of(" ,:;"));
  const std::string_view inner = std::string_view(word).substr(0, word.size() - (word.ends_with('.') ? 1 : 0));
  const bool is_name = inner.find_first_of("._0123456789") != std::string_view::npos;
  if (!is_name && !text.empty())
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string mdoc_text(const std::string& text) {
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
    for (const DocumentedOption& positional : tool.positionals)
      text += item("Ar " + argument(positional.spelling), positional);
    text += ".El\n";
  }
  for (const DocumentedSection& section : tool.sections) {
    if (!section.title.empty()) text += fmt::format(".Ss {}\n", mdoc_text(section.title));
    text += ".Bl -tag -width Ds\n";
    for (const DocumentedOption& option : section.options) text += item(flag(option), option);
    text += ".El\n";
  }
  return text;
}

std::string mdoc_keys(const DocumentedTool& tool) {
  std::string text = keys_of({.name = "", .title = "", .options = tool.positionals});
  for (const DocumentedSection& section : tool.sections) text += keys_of(section);
  return text;
}

}  // namespace lockstep
