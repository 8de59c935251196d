#include "options/plugin_options.hpp"

#include "options/interpret.hpp"
#include "options/option.hpp"
#include "plugin/plugins.hpp"

#include <algorithm>

namespace lockstep {

namespace {

OptionType type_of(const lockstep_option& option) {
  switch (option.type) {
    case LOCKSTEP_INTEGER: return {.kind = OptionType::Kind::integer};
    case LOCKSTEP_NUMBER: return {.kind = OptionType::Kind::number};
    case LOCKSTEP_TEXT: return {.kind = OptionType::Kind::text};
    case LOCKSTEP_BOOLEAN: return {.kind = OptionType::Kind::boolean};
  }
  throw Error(ExitCode::bug, "unknown type of a plug-in option");
}

OptionFacts facts_of(const lockstep_option& option) {
  OptionFacts facts{.brief = option.help, .on_resume = option.fixed_on_resume != 0 ? OnResume::fixed() : OnResume{}};
  const bool is_number = option.type == LOCKSTEP_INTEGER || option.type == LOCKSTEP_NUMBER;
  if (!is_number || !(option.min <= option.max)) return facts;
  facts.min = option.min;
  facts.max = option.max;
  return facts;
}

Json built_in_of(const lockstep_option& option, const std::string& path, const std::string& file) {
  Problems problems;
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = option.built_in;
  const std::optional<Json> value = interpret(type_of(option), facts_of(option), node, path, problems);
  if (!value)
    fail(ExitCode::input, "{}: the default of {} is not valid: {}", file, path, problems.entries().front().text);
  return *value;
}

std::string path_of(const Plugin& plugin, const lockstep_option& option) {
  return fmt::format("{}.{}", plugin.table().name, option.name);
}

}  // namespace

void describe_plugin_files(Declaration& visit, std::vector<std::string>& files) {
  visit.field(
      "plugin", files,
      {.brief = "load plug-ins (shared objects): lockstep-plugin(7)",
       .details =
           "Plug-ins add readers, tokenizers, callbacks, schedules, optimizers and more, with options of their own",
       .value_name = "FILE",
       .completes = Completes::files});
}

void describe_plugin_options(Declaration& visit, PluginValues& values) {
  for (const auto& plugin : Plugins::opened().all()) {
    const std::string name = plugin->table().name;
    const auto in_section = [&](const Option& option) {
      return option.path == name || option.path.starts_with(name + ".");
    };
    if (std::ranges::any_of(visit.options(), in_section))
      fail(ExitCode::input, "{}: its name {} is already used by options of this program", plugin->file(), name);
    visit.section(name, plugin->table().help, [] {});
    for (const lockstep_option& option : plugin->options()) {
      const std::string path = path_of(*plugin, option);
      const Json built_in = built_in_of(option, path, plugin->file());
      const auto value = values.try_emplace(path, std::make_shared<const Json>(built_in)).first;
      visit.add({.path = path,
                 .type = type_of(option),
                 .facts = facts_of(option),
                 .built_in = built_in,
                 .get = [value] { return *value->second; },
                 .set = [value](const Json& json) { value->second = std::make_shared<const Json>(json); }});
    }
  }
}

void hand_to_plugins(const PluginValues& values) {
  for (const auto& plugin : Plugins::opened().all())
    for (std::size_t i = 0; i < plugin->options().size(); ++i)
      plugin->set(i, *values.at(path_of(*plugin, plugin->options()[i])));
}

}  // namespace lockstep
