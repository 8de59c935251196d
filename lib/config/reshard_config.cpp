#include "config/reshard_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/ranges.hpp"
#include "config/tool.hpp"

#include <charconv>

namespace lockstep {

std::string ReshardTarget::form() { return "parts=N or JSON"; }

ReshardTarget ReshardTarget::parse(const std::string& text) {
  ReshardTarget target;
  const bool bare = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (bare)
    fail(ExitCode::usage, "\"{}\" does not say what there are to be {} of: type --to parts={}", text, text, text);
  const auto refuse = [&] {
    fail(ExitCode::usage, "\"{}\" is neither parts=N nor {{\"parts\": N}} with N from 1 to {}", text, most_count);
  };
  if (text.starts_with('{')) {
    const Json json = Json::parse(text, nullptr, false);
    const bool understood =
        json.is_object() && json.size() == 1 && json.contains("parts") && json["parts"].is_number_integer();
    if (!understood) refuse();
    target.parts = json["parts"].get<std::int64_t>();
  } else if (text.starts_with("parts=")) {
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data() + 6, end, target.parts);
    if (error != std::errc{} || read != end) refuse();
  } else {
    refuse();
  }
  if (target.parts < 1 || static_cast<double>(target.parts) > most_count) refuse();
  return target;
}

std::string ReshardTarget::text() const { return fmt::format("parts={}", parts); }

void describe(Declaration& visit, ReshardConfig& config) {
  visit.field("checkpoint", config.checkpoint,
              {.help = "folder of the checkpoint to read; of a run: its newest valid one",
               .value_name = "CKPT",
               .required = true,
               .positional = true,
               .completes = Completes::folders});
  visit.field("to", config.to,
              {.help = "number of part files of each component, as parts=N or {\"parts\": N}", .value_name = "TARGET"});
  visit.field("consolidate", config.consolidate, {.help = "one part file a component: the same as --to parts=1"});
  visit.field("output", config.output,
              {.help = "folder to create",
               .value_name = "DIR",
               .letter = 'o',
               .required = true,
               .completes = Completes::folders});
}

Tool tool_of(const ReshardConfig&) {
  return {.name = "checkpoint-reshard",
          .summary = "write a checkpoint anew in another layout",
          .synopsis = {"[OPTION...] CKPT --to parts=N --output DIR", "[OPTION...] CKPT --consolidate --output DIR"},
          .arguments = Tool::Arguments::options,
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::text_or_json};
}

void check(const ReshardConfig& config, Problems& problems) {
  if (config.consolidate && config.to)
    problems.add({"to", "consolidate"}, "--to and --consolidate both say how many parts there will be: give one");
  if (!config.consolidate && !config.to)
    problems.add({"to", "consolidate"}, "--to parts=N or --consolidate is needed: which layout to write");
}

}  // namespace lockstep
