// From a command line to a configuration: the one entry for programs. Built-in values, then presets, then files in
// order, then the command line; every problem reported at once; --help, --version, --build-info, --print-config,
// --print-schema answered here. What a configuration holds: config/train_config.hpp and its neighbours. How options are
// declared: config/option.hpp.
#pragma once

#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/settings.hpp"
#include "config/tool.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

template <class Config>
struct CommandLine {
  Config config;
  CommonOptions common;  // --dry-run, --json, --log-level, --progress, --color
  Settings settings;     // every option with its value and where it came from: to_yaml() is RUN/config.yaml
  std::optional<std::string> answer;  // set: write this to stdout and exit 0; `config` is then not checked
};

/// What does not depend on the type of the configuration: fills what `declaration` is bound to. `arguments` without the
/// program's name.
struct ParsedLine {
  CommonOptions common;
  Settings settings;
  std::optional<std::string> answer;
  Problems problems;
};
ParsedLine parse_arguments(const Tool& tool, Declaration& declaration, const std::vector<std::string>& arguments);

/// Opens the plug-ins that the line and its files name, whose options and names are declared from then on. Local.
/// Throws Error(input) for what is none.
void open_named_plugins(const Tool& tool, const Declaration& declaration, const std::vector<std::string>& arguments);

/// Throws the one Error(usage) that lists `problems` with where each option came from. Returns if there is none.
void raise(const Tool& tool, const Declaration& declaration, const Problems& problems, const Settings& settings);

/// Of an error that names options: which words of another trainer set them, and where, as "(parallel.ep from
/// x.yaml:3: train.expert_parallel_size)"; empty if none did. Local.
std::string words_behind(const Error& error, const Settings& settings);

/// Local; needs no MPI, GPU or write access. `arguments` without the program's name. Throws Error(usage) listing every
/// problem.
template <class Config>
CommandLine<Config> parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine<Config> line;
  const Tool tool = tool_of(line.config);
  {
    Config without_plugins;
    Declaration declaration;
    describe(declaration, without_plugins);
    open_named_plugins(tool, declaration, arguments);
  }
  Declaration declaration;
  describe(declaration, line.config);
  ParsedLine parsed = parse_arguments(tool, declaration, arguments);
  if (!parsed.answer && parsed.problems.all_files_read()) check(line.config, parsed.problems);
  raise(tool, declaration, parsed.problems, parsed.settings);
  line.common = std::move(parsed.common);
  line.settings = std::move(parsed.settings);
  line.answer = std::move(parsed.answer);
  return line;
}

}  // namespace lockstep
