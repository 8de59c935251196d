// Description of a program: its name, its arguments besides options, and the options that all programs share.
#pragma once

#include "report/log.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Declaration;

enum class PrintExtent { full, changed };  // of --print-config
enum class SchemaOf { records, config };   // of --print-schema

struct Tool {
  enum class Arguments {
    options,
    config_files,
    options_and_config_files
  };  // kind of positional arguments: options, configuration files, or both (files end in .yaml or .yml)
  enum class DryRun { no, yes };
  enum class Output { text, text_or_json, records };  // text_or_json: has --json; records: train
  std::string name;                                   // "checkpoint-inspect"
  std::string summary;                                // purpose in one line
  std::vector<std::string> synopsis;                  // text after the name, one line per form
  Arguments arguments = Arguments::options;
  DryRun dry_run = DryRun::no;
  Output output = Output::text;
  std::string json_answers = {};                // Output::records: options whose answer --json prints as an object
  std::vector<std::string> first_options = {};  // shown by --help; empty: all options outside sections
};

constexpr std::string_view help_overview = "overview";  // one screen
constexpr std::string_view help_all = "all";            // every option

/// Options that all programs share. They are allowed on the command line only, not in files.
struct CommonOptions {
  std::optional<std::string> help;  // a section, an option, help_overview or help_all
  bool version = false;
  bool build_info = false;
  std::optional<PrintExtent> print_config;
  std::optional<SchemaOf> print_schema;
  std::vector<std::string> config;     // files, in order
  std::optional<std::string> dialect;  // vocabulary of the configuration; not set: named or implied by the files
  std::optional<std::string> explain;  // a key of a dialect
  bool dry_run = false;
  bool json = false;
  LogLevel log_level = LogLevel::info;
  When progress = When::automatic;
  When color = When::automatic;
};

/// Declares the common options that `tool` has.
void describe(Declaration& visit, CommonOptions& common, const Tool& tool);

}  // namespace lockstep
