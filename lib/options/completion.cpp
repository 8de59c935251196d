#include "base/text.hpp"
#include "options/faces.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

/// The option as it is typed: the first element of a list stands for all, of a map one that is called NAME.
std::string typed(const DocumentedOption& option) {
  std::string spelling = option.spelling;
  if (const std::size_t element = spelling.find(".N."); element != std::string::npos) spelling[element + 1] = '0';
  return spelling;
}

std::string function_name(const Tool& tool) {
  std::string name = "_lockstep_" + tool.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

/// The command that lists what may stand in the value's place.
std::string bash_values(const DocumentedOption& option) {
  if (!option.choices.empty())
    return fmt::format("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$current\")", join(option.choices, " "));
  if (option.completes == Completes::files) return "mapfile -t COMPREPLY < <(compgen -f -- \"$current\")";
  if (option.completes == Completes::folders) return "mapfile -t COMPREPLY < <(compgen -d -- \"$current\")";
  return "COMPREPLY=()";
}

std::string bash_case(const DocumentedOption& option) {
  std::string pattern = typed(option);
  if (option.letter != '\0') pattern += fmt::format(" | -{}", option.letter);
  const char* const guard = option.value == DocumentedOption::Value::after_equals ? "[[ $equals ]] && { " : "{ ";
  return fmt::format("    {})\n      {}{}; return; }} ;;\n", pattern, guard, bash_values(option));
}

/// Text inside a single-quoted specification of zsh's _arguments.
std::string zsh_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result;
}

std::string zsh_action(const DocumentedOption& option) {
  if (!option.choices.empty()) return fmt::format("({})", join(option.choices, " "));
  if (option.completes == Completes::files) return "_files";
  if (option.completes == Completes::folders) return "_files -/";
  return "";
}

std::string zsh_option(const DocumentedOption& option, const std::string& spelling) {
  const bool letter = spelling.size() == 2;
  std::string spec = (option.repeatable ? "*" : "") + spelling;
  if (option.value == DocumentedOption::Value::next_word) spec += letter ? "" : "=";
  if (option.value == DocumentedOption::Value::after_equals) spec += "=-";
  spec += fmt::format("[{}]", zsh_escaped(option.brief));
  if (option.value != DocumentedOption::Value::none) {
    const char* const maybe = option.value == DocumentedOption::Value::after_equals ? "::" : ":";
    spec += fmt::format("{}{}:{}", maybe, zsh_escaped(option.value_name), zsh_action(option));
  }
  return fmt::format("  '{}' \\\n", spec);
}

}  // namespace

std::string bash_completion(const DocumentedTool& tool) {
  const std::string function = function_name(tool.tool);
  std::string cases;
  std::string words;
  for (const DocumentedSection& section : tool.sections) {
    for (const DocumentedOption& option : section.options) {
      words += fmt::format("      {}\n", typed(option));
      if (option.letter != '\0') words += fmt::format("      -{}\n", option.letter);
      if (option.value != DocumentedOption::Value::none) cases += bash_case(option);
    }
  }
  return fmt::format(R"(# bash completion for lockstep's {0}

{1}()
{{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}" equals=""
  if [[ $current == "=" ]]; then
    current="" equals=yes
  elif [[ $previous == "=" ]]; then
    previous="${{COMP_WORDS[COMP_CWORD - 2]}}" equals=yes
  fi
  case $previous in
{2}  esac
  if [[ $current == -* ]]; then
    local options="
{3}    "
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F {1} {0} lockstep-{0}
)",
                     tool.tool.name, function, cases, words);
}

std::string zsh_completion(const DocumentedTool& tool) {
  std::string text =
      fmt::format("#compdef {} lockstep-{}\n# zsh completion for lockstep's {}\n\n_arguments -s -S : \\\n",
                  tool.tool.name, tool.tool.name, tool.tool.name);
  for (const DocumentedSection& section : tool.sections) {
    for (const DocumentedOption& option : section.options) {
      text += zsh_option(option, typed(option));
      if (option.letter != '\0') text += zsh_option(option, fmt::format("-{}", option.letter));
    }
  }
  return text + "  '*:file:_files'\n";
}

}  // namespace lockstep
