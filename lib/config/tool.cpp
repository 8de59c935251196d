#include "config/tool.hpp"

#include "config/option.hpp"

namespace lockstep {

ChoiceList<LogLevel> choices_of(LogLevel) {
  return {
      {LogLevel::debug, "debug"}, {LogLevel::info, "info"}, {LogLevel::warning, "warning"}, {LogLevel::error, "error"}};
}
ChoiceList<When> choices_of(When) {
  return {{When::automatic, "auto"}, {When::always, "always"}, {When::never, "never"}};
}
ChoiceList<PrintExtent> choices_of(PrintExtent) {
  return {{PrintExtent::full, "full"}, {PrintExtent::changed, "changed"}};
}
ChoiceList<SchemaOf> choices_of(SchemaOf) { return {{SchemaOf::records, "records"}, {SchemaOf::config, "config"}}; }

void describe(Declaration& visit, CommonOptions& common, const Tool& tool) {
  visit.field("help", common.help, {.help = "print this help and exit", .letter = 'h'});
  visit.field("version", common.version, {.help = "print the version and exit", .letter = 'V'});
  visit.field("build_info", common.build_info, {.help = "print how this program was built and exit"});
  visit.field("print_config", common.print_config,
              {.help = "print every option with its value and where it came from, as a configuration file, and exit; "
                       "changed: only those that are not as built in",
               .bare = "full"});
  const bool records = tool.output == Tool::Output::records;
  visit.field("print_schema", common.print_schema,
              {.help = records ? "print the JSON Schema of the records, or of the configuration, and exit"
                               : "print the JSON Schema of the configuration and exit",
               .bare = records ? "records" : "config"});
  visit.field("config", common.config,
              {.help = "read a configuration file; later files override earlier ones, the command line overrides all",
               .value_name = "FILE",
               .completes = Completes::files});
  visit.field("dialect", common.dialect,
              {.help = "in whose words the options are: lockstep, or those of another trainer, as lockstep-dialects(5) "
                       "has them; null: as the files say or show",
               .value_name = "NAME"});
  visit.field("explain", common.explain,
              {.help = "print what a key of another trainer becomes here, or why it is refused, and exit",
               .value_name = "KEY"});
  if (tool.dry_run == Tool::DryRun::yes) {
    visit.field("dry_run", common.dry_run, {.help = "print the plan and exit; nothing is written", .letter = 'n'});
  }
  if (tool.output == Tool::Output::text_or_json)
    visit.field("json", common.json, {.help = "print one JSON object instead of text"});
  if (records && tool.dry_run == Tool::DryRun::yes)
    visit.field("json", common.json, {.help = "with --dry-run: print the plan as one JSON object"});
  visit.field("log_level", common.log_level, {.help = "least important log lines to show on standard error"});
  visit.field("progress", common.progress,
              {.help = "show progress on standard error; auto: drawn in place on a terminal, lines at growing "
                       "intervals elsewhere"});
  visit.field("color", common.color, {.help = "colour on standard error; auto: on a terminal, unless NO_COLOR is set"});
}

}  // namespace lockstep
