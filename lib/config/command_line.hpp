// From a command line to a configuration: the single entry for programs. Defaults come first, then files in order (each
// on its presets), then the command line. All problems are reported together. --help, --version, --build-info,
// --print-config and --print-schema are answered here. Contents of a configuration: config/train_config.hpp and its
// neighbours. How options are declared: options/option.hpp.
#pragma once

#include "options/option.hpp"
#include "options/problems.hpp"
#include "options/settings.hpp"
#include "options/tool.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

template <class Config>
struct CommandLine {
  Config config;
  CommonOptions common;               // --dry-run, --json, --log-level, --progress, --color
  Settings settings;                  // all options with their origins; to_yaml() of them is RUN/config.yaml
  std::optional<std::string> answer;  // if set: write it to stdout and exit 0; `config` is not checked then
  std::vector<std::string> notes;     // on keys of another trainer that have no effect, for the log
};

/// The part of parsing that is independent of the configuration's type. It fills the variables bound to `declaration`.
/// `arguments` excludes the program's name.
struct ParsedLine {
  CommonOptions common;
  Settings settings;
  std::optional<std::string> answer;
  Problems problems;
};
ParsedLine parse_arguments(const Tool& tool, Declaration& declaration, const std::vector<std::string>& arguments);

/// Opens the plug-ins that the command line and its files name. Call it before the options are declared, since plug-ins
/// add options and names. Local. Throws Error(input) for a file that is not a plug-in.
void open_named_plugins(const Tool& tool, const Declaration& declaration, const std::vector<std::string>& arguments);

/// Throws one Error(usage) with all `problems` and the origins of their options. Returns if there are none.
void raise(const Tool& tool, const Declaration& declaration, const Problems& problems, const Settings& settings);

/// Finds the options that an error names, and returns the keys of another trainer that set them, with their places:
/// "(parallel.ep from x.yaml:3: train.expert_parallel_size)". Empty if there are none. Local.
std::string dialect_keys_of(const Error& error, const Settings& settings);

/// Returns a hint with its options as a command line in the dialect of the settings takes them:
/// --lockstep.train.epochs. Without a dialect it is returned as it is. Local.
std::string hint_in_dialect(const std::string& hint, const Settings& settings);

/// Parses a command line; `arguments` excludes the program's name. Local; needs no MPI, GPU or write access. Throws
/// Error(usage) with all problems.
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
  if constexpr (requires { line.config.dry_run; }) line.config.dry_run = parsed.common.dry_run;
  if (!parsed.answer && parsed.problems.all_files_read()) check(line.config, parsed.problems);
  raise(tool, declaration, parsed.problems, parsed.settings);
  line.common = std::move(parsed.common);
  line.settings = std::move(parsed.settings);
  line.answer = std::move(parsed.answer);
  line.notes = parsed.problems.notes();
  return line;
}

}  // namespace lockstep
