// What a program is called and takes besides its options, and the options that all programs share.
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
  };  // positional arguments: options declared so, files as --config takes, or both: *.yaml and *.yml are such files
  enum class DryRun { no, yes };
  enum class Output { text, text_or_json, records };  // text_or_json: a question tool, with --json; records: training
  std::string name;                                   // "checkpoint-inspect"
  std::string summary;                                // one line: what it does
  std::vector<std::string> synopsis;                  // what follows the name, one line a form
  Arguments arguments = Arguments::options;
  DryRun dry_run = DryRun::no;
  Output output = Output::text;
  std::vector<std::string> first_options = {};  // those that --help shows; empty: all that are in no section
};

constexpr std::string_view help_overview = "overview";  // one screen
constexpr std::string_view help_all = "all";            // every option

/// Options of the command line only: no configuration file holds them.
struct CommonOptions {
  std::optional<std::string> help;  // a section, an option, or one of the two words below
  bool version = false;
  bool build_info = false;
  std::optional<PrintExtent> print_config;
  std::optional<SchemaOf> print_schema;
  std::vector<std::string> config;     // files, in order
  std::optional<std::string> dialect;  // in whose words the configuration is; absent: as the files say, or show
  std::optional<std::string> explain;  // a key of a dialect
  bool dry_run = false;
  bool json = false;
  LogLevel log_level = LogLevel::info;
  When progress = When::automatic;
  When color = When::automatic;
};

/// Declares those that `tool` has.
void describe(Declaration& visit, CommonOptions& common, const Tool& tool);

}  // namespace lockstep
