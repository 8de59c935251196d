#include "options/tool.hpp"

#include "options/option.hpp"

#include <fmt/format.h>

namespace lockstep {

ChoiceList<LogLevel> choices_of(LogLevel) {
  return {{LogLevel::debug, "debug", "every line"},
          {LogLevel::info, "info", "the course of the work"},
          {LogLevel::warning, "warning", "warnings and errors"},
          {LogLevel::error, "error", "errors only"}};
}
ChoiceList<When> choices_of(When) {
  return {{When::automatic, "auto", "as the terminal allows"},
          {When::always, "always", "also without a terminal"},
          {When::never, "never", "not at all"}};
}
ChoiceList<PrintExtent> choices_of(PrintExtent) {
  return {{PrintExtent::full, "full", "all options"},
          {PrintExtent::changed, "changed", "only options that differ from their default"}};
}
ChoiceList<SchemaOf> choices_of(SchemaOf) {
  return {{SchemaOf::records, "records", "the records that the program writes"},
          {SchemaOf::config, "config", "configuration files"}};
}

void describe(Declaration& visit, CommonOptions& common, const Tool& tool) {
  visit.field("help", common.help,
              {.brief = "print help and exit",
               .details = "--help=SECTION, --help=OPTION and --help=all show more",
               .value_name = "TOPIC",
               .bare = std::string(help_overview),
               .letter = 'h'});
  visit.field("version", common.version, {.brief = "print the version and exit", .letter = 'V'});
  visit.field("build_info", common.build_info, {.brief = "print the build configuration and exit"});
  visit.field("print_config", common.print_config,
              {.brief = "print all options with values and origins as YAML, and exit", .bare = "full"});
  const bool records = tool.output == Tool::Output::records;
  visit.field("print_schema", common.print_schema,
              {.brief = records ? "print the JSON Schema of the records, or of the configuration, and exit"
                                : "print the JSON Schema of the configuration, and exit",
               .bare = records ? "records" : "config"});
  visit.field("config", common.config,
              {.brief = "read a configuration file (repeatable)",
               .details = "Later files override earlier ones; the command line overrides all files",
               .value_name = "FILE",
               .completes = Completes::files});
  visit.field("dialect", common.dialect,
              {.brief = "dialect of the configuration: lockstep or another trainer's",
               .details = "lockstep-dialects(5) lists the dialects",
               .unset = "named by the files, or recognised by their keys",
               .value_name = "NAME"});
  visit.field("explain", common.explain,
              {.brief = "print how a key of another trainer is translated, and exit", .value_name = "KEY"});
  if (tool.dry_run == Tool::DryRun::yes) {
    visit.field("dry_run", common.dry_run, {.brief = "print the plan and exit; write nothing", .letter = 'n'});
  }
  if (tool.output == Tool::Output::text_or_json)
    visit.field("json", common.json, {.brief = "print one JSON object instead of text"});
  if (records && tool.dry_run == Tool::DryRun::yes)
    visit.field("json", common.json,
                {.brief = "print the answer as one JSON object instead of text",
                 .details = fmt::format("It is for {}", tool.json_answers)});
  visit.field("log_level", common.log_level, {.brief = "minimum level of log lines on standard error"});
  visit.field("progress", common.progress,
              {.brief = "show progress on standard error",
               .details = "auto draws in place on a terminal, and prints lines at growing intervals elsewhere"});
  visit.field("color", common.color,
              {.brief = "colour on standard error", .details = "auto: on a terminal, unless NO_COLOR is set"});
}

}  // namespace lockstep
