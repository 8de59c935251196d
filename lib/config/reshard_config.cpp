#include "config/reshard_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "config/configured_mesh.hpp"
#include "config/train_choices.hpp"
#include "options/interpret.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"
#include "options/ranges.hpp"
#include "options/suggestion.hpp"
#include "options/tool.hpp"

#include <algorithm>
#include <charconv>

namespace lockstep {

namespace {

constexpr std::string_view parts_key = "parts";
constexpr std::int64_t most_ranks = 1 << 16;                     // of a mesh: a plan goes through all of them
constexpr std::uint64_t least_memory = std::uint64_t{64} << 20;  // what a piece takes that is written in rows

constexpr std::string_view expert_key = "ep";  // divides ranks that the others name
constexpr std::string_view outside_key = "ep_outside";

std::vector<std::string> axis_names() {
  std::vector<std::string> names;
  for (const auto& axis : choices_of(MeshAxis{})) names.emplace_back(axis.name);
  names.emplace_back(expert_key);
  return names;
}

[[noreturn]] void refuse_form(const std::string& text) {
  fail(ExitCode::usage,
       "\"{}\" is not a layout: give parts=N, mesh axes such as tp=2,dp_shard=4, {{\"parts\": N}}, or a .yaml of train",
       text);
}

bool has_axis(const ReshardTarget& target, std::string_view name) {
  return std::ranges::any_of(target.axes, [&](const auto& axis) { return axis.first == name; });
}

void set(ReshardTarget& target, const std::string& key, std::int64_t size) {
  if (size < 1 || static_cast<double>(size) > most_count)
    fail(ExitCode::usage, "{}={}: it must be from 1 to {}", key, size, most_count);
  if (key == parts_key) {
    if (target.parts) fail(ExitCode::usage, "parts is given twice");
    target.parts = size;
    return;
  }
  const std::vector<std::string> names = axis_names();
  if (std::ranges::find(names, key) == names.end()) {
    std::vector<std::string> known = names;
    known.insert(known.end(), {std::string(outside_key), std::string(parts_key)});
    const auto meant = suggested_choice(known, key);
    throw Error(ExitCode::usage, fmt::format("\"{}\" is not a mesh axis, which are {}{}", key, join(names, ", "),
                                             meant ? fmt::format(": did you mean {}?", *meant) : ""));
  }
  if (has_axis(target, key)) fail(ExitCode::usage, "axis {} is given twice", key);
  target.axes.emplace_back(key, size);
}

/// What is neither is refused as `text`.
void set_outside(ReshardTarget& target, std::optional<bool> value, const std::string& text) {
  if (!value) refuse_form(text);
  if (target.ep_outside) fail(ExitCode::usage, "{} is given twice", outside_key);
  target.ep_outside = value;
}

void read_json(const std::string& text, ReshardTarget& target) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.empty()) refuse_form(text);
  for (const auto& [key, value] : json.items()) {
    if (key == outside_key) {
      set_outside(target, value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt, text);
      continue;
    }
    if (!value.is_number_integer()) refuse_form(text);
    set(target, key, value.get<std::int64_t>());
  }
}

void read_words(const std::string& text, const std::vector<std::string>& words, ReshardTarget& target) {
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) refuse_form(text);
    const std::string key = word.substr(0, equals);
    if (key == outside_key) {
      set_outside(target, boolean_word(word.substr(equals + 1)), text);
      continue;
    }
    std::int64_t size = 0;
    const char* const end = word.data() + word.size();
    const auto [read, error] = std::from_chars(word.data() + equals + 1, end, size);
    if (error != std::errc{} || read != end) refuse_form(text);
    set(target, key, size);
  }
}

bool is_configuration(const std::string& word) {
  return word.find('=') == std::string::npos && (word.ends_with(".yaml") || word.ends_with(".yml"));
}

/// What a configuration of train says of the mesh and the words beside it do not.
void add_configured(const std::string& path, ReshardTarget& target) {
  const ConfiguredMesh mesh = read_configured_mesh(path);
  for (const auto& [name, size] : mesh.axes) {
    if (has_axis(target, name)) continue;
    if (size == 0 || size == AxisSize::of_node)
      fail(ExitCode::usage, "{} leaves the size of {} to the {} of the job: give it, as in {},{}=4", path, name,
           size == 0 ? "number of ranks" : "nodes", path, name);
    set(target, name, size);
  }
  if (!target.ep_outside) target.ep_outside = mesh.ep_outside;
}

void check_experts(const ReshardTarget& target) {
  const auto experts = std::ranges::find(target.axes, expert_key, &std::pair<std::string, std::int64_t>::first);
  if (target.ep_outside && (experts == target.axes.end() || experts->second == 1))
    fail(ExitCode::usage, "{} has no effect: ep is 1", outside_key);
}

void check_ranks(const ReshardTarget& target) {
  std::int64_t ranks = 1;
  for (const auto& [name, size] : target.axes) {
    if (name == expert_key) continue;
    if (size > most_ranks / ranks)
      fail(ExitCode::usage, "{} is more than the limit of {} ranks", target.text(), most_ranks);
    ranks *= size;
  }
  if (!target.axes.empty() && target.parts.value_or(1) > ranks)
    fail(ExitCode::usage, "{} cannot write {} parts, because a rank writes to one: use at most {}",
         counted(ranks, "rank"), *target.parts, ranks);
}

}  // namespace

std::string ReshardTarget::form() { return "parts=N, AXIS=RANKS,…, JSON or a .yaml of train"; }

ReshardTarget ReshardTarget::parse(const std::string& text) {
  ReshardTarget target;
  const bool bare = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (bare) fail(ExitCode::usage, "\"{}\" is only a number: for {} part files, use --to parts={}", text, text, text);
  if (text.starts_with('{')) {
    read_json(text, target);
  } else if (std::vector<std::string> words = split(text, ','); is_configuration(words.front())) {
    const std::string path = words.front();
    words.erase(words.begin());
    read_words(text, words, target);
    add_configured(path, target);
  } else {
    read_words(text, words, target);
  }
  check_experts(target);
  check_ranks(target);
  return target;
}

std::string ReshardTarget::text() const {
  std::vector<std::string> words;
  for (const auto& [name, size] : axes) words.push_back(fmt::format("{}={}", name, size));
  if (ep_outside) words.push_back(fmt::format("{}={}", outside_key, *ep_outside));
  if (parts) words.push_back(fmt::format("{}={}", parts_key, *parts));
  return join(words, ",");
}

ChoiceList<CastDtype> choices_of(CastDtype) {
  return {{CastDtype::bf16, "bf16", "bfloat16"},
          {CastDtype::fp16, "fp16", "half precision"},
          {CastDtype::fp32, "fp32", "single precision"},
          {CastDtype::fp64, "fp64", "double precision"}};
}

void describe(Declaration& visit, ReshardConfig& config) {
  describe_plugin_files(visit, config.plugin);
  visit.field("checkpoints", config.checkpoints,
              {.brief = "checkpoint, run or Hugging Face folder to read; several to average",
               .details = "Of a run, the newest valid checkpoint is read. Of a Hugging Face folder, the weights are "
                          "read. Several folders need --average",
               .value_name = "CKPT",
               .required = true,
               .positional = true,
               .completes = Completes::folders});
  visit.field("to", config.to,
              {.brief = "output layout: parts=N, or a mesh such as tp=2,dp_shard=4",
               .details = "parts=N writes N part files of each component. A mesh, with the axes of parallel.*, writes "
                          "the files of a job on that mesh. Both together are written as JSON: {\"parts\": 4}. A train "
                          "configuration (run.yaml) names its own mesh",
               .value_name = "TARGET"});
  visit.field("consolidate", config.consolidate,
              {.brief = "write one part file per component: short for --to parts=1"});
  visit.field("average", config.average,
              {.brief = "average the weights of all checkpoints",
               .details = "The average is computed in fp64 and rounded once. Other components that --only names come "
                          "from the first checkpoint"});
  visit.field("only", config.only,
              {.brief = "write only these components or tensors",
               .details = "Components are given by name, tensors by a regular expression that matches in their full "
                          "name (model/lm_head.weight)"});
  visit.field("skip", config.skip, {.brief = "leave out these components or tensors (as --only)"});
  visit.field("cast", config.cast,
              {.brief = "convert floating-point weights to this type",
               .details = "It applies to the component model and rounds to nearest, ties to even"});
  visit.field("memory", config.memory,
              {.brief = "memory limit per process for pieces in work",
               .details = "A larger piece is read and written in rows"});
  visit.field("watchdog", config.watchdog,
              {.brief = "end the job when a rank makes no progress for this long",
               .details = "The job ends with code 7 and a table of every rank's phase. 0 sets no limit"});
  visit.field("output", config.output,
              {.brief = "folder to create",
               .value_name = "DIR",
               .letter = 'o',
               .required = true,
               .completes = Completes::folders});
  describe_plugin_options(visit, config.plugin_values);
}

Tool tool_of(const ReshardConfig&) {
  return {.name = "checkpoint-reshard",
          .summary = "write a checkpoint anew in another layout",
          .synopsis = {"[OPTION...] CKPT --to TARGET --output DIR", "[OPTION...] CKPT --consolidate --output DIR",
                       "[OPTION...] CKPT CKPT... --average --output DIR"},
          .arguments = Tool::Arguments::options,
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::text_or_json};
}

void check(const ReshardConfig& config, Problems& problems) {
  if (config.consolidate && config.to)
    problems.add({"to", "consolidate"}, "--to and --consolidate both set the number of parts: leave one out");
  if (!config.consolidate && !config.to && !config.average)
    problems.add({"to", "consolidate"},
                 "--to parts=N, --to AXIS=RANKS,… or --consolidate is needed: the layout to write");
  if (config.average && config.checkpoints.size() == 1)
    problems.add({"average"}, "--average has no effect on one checkpoint: name several");
  if (!config.average && config.checkpoints.size() > 1)
    problems.add({"checkpoints"}, fmt::format("{} checkpoints are named, but only one can be resharded: add --average "
                                              "to average them",
                                              config.checkpoints.size()));
  if (config.memory.bytes < least_memory)
    problems.add({"memory"}, fmt::format("memory is {}, but at least {} is needed", human_bytes(config.memory.bytes),
                                         human_bytes(least_memory)));
}

}  // namespace lockstep
