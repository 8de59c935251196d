#include "config/command_line.hpp"

#include "base/files.hpp"
#include "base/text.hpp"
#include "config/all_options.hpp"
#include "device/device_plugin.hpp"
#include "dialects/layers.hpp"
#include "options/arguments.hpp"
#include "options/documented.hpp"
#include "options/faces.hpp"
#include "options/interpret.hpp"
#include "options/path_text.hpp"
#include "plugin/plugins.hpp"
#include "report/build_info.hpp"
#include "report/record.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// The build, and for the program that opens it whether the plug-in for GPUs is there.
std::string build_info_text(const Tool& tool) {
  std::string text;
  for (const auto& [key, value] : build_info()) text += fmt::format("{:<12} {}\n", key, value);
  if (tool.name != "train") return text;
  const std::optional<Path> plugin = find_device_plugin();
  return text + fmt::format("{:<12} {}\n", "cuda_plugin", plugin ? plugin->string() : "none");
}

/// What a key means here, of any dialect or of Lockstep's own.
std::string explain(const std::string& key, const Tool& tool, const Declaration& declaration) {
  std::string text = explain_key(key);
  if (const Option* const option = declaration.find(key)) text += help_text(document(tool, declaration), option->path);
  if (text.empty())
    fail(ExitCode::usage, "no option of this program and no key of another trainer is called \"{}\"", key);
  return text;
}

/// The same for an unknown option, in one line.
std::string explain_unknown(std::string_view name) {
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  std::vector<std::string> lines = split(explain_key(key), '\n');
  std::erase(lines, "");
  return join(lines, "; ");
}

/// What is answered before any file is read.
std::optional<std::string> answer_at_once(const Tool& tool, const CommonOptions& common,
                                          const Declaration& declaration) {
  if (common.help) return help_text(document(tool, declaration), *common.help);
  if (common.version) return fmt::format("lockstep {} {}\n", tool.name, version());
  if (common.build_info) return build_info_text(tool);
  if (common.explain) return explain(*common.explain, tool, declaration);
  if (!common.print_schema) return std::nullopt;
  return to_text(
             *common.print_schema == SchemaOf::records ? record_json_schema() : config_json_schema(tool, declaration),
             2) +
         "\n";
}

/// The plug-ins that a file names, in whatever dialect it is; null if it names none. What is wrong with the file is
/// told later.
const Node* plugins_named(const Node& document) {
  const Node* const own = document.find("lockstep");
  const Node* const named = own == nullptr ? nullptr : own->find("plugin");
  return named == nullptr ? document.find("plugin") : named;
}

/// One problem as a line, with the places in files of the options that contradict each other.
std::string explain(const Problems::Entry& entry, const Settings& settings) {
  std::vector<std::string> places;
  if (entry.where.empty()) {
    for (const std::string& option : entry.options) {
      const std::string origin = origin_of(settings, option);
      if (!origin.empty() && origin != "built-in" && origin != "command line")
        places.push_back(fmt::format("{} from {}", name_in_messages(option), origin));
    }
    return entry.text + (places.empty() ? "" : fmt::format(" ({})", join(places, ", ")));
  }
  const std::string name = entry.options.empty() ? "" : name_in_messages(entry.options.front());
  const bool says_so_itself = name.empty() || entry.text.find(name) != std::string::npos;
  return fmt::format("{}: {}{}", entry.where, says_so_itself ? "" : name + ": ", entry.text);
}

/// Returns whether a key of another trainer set the value. Its origin then names the key.
bool is_translated(const Setting& setting) { return setting.origin.find(": ") != std::string::npos; }

/// Returns the hint "train --explain fsdp_config says what it means" for a problem of another trainer's key; otherwise
/// an empty text.
std::string hint_for_key(const Tool& tool, const Problems::Entry& problem) {
  const std::size_t place = problem.where.rfind(": ");
  if (place == std::string::npos) return {};
  std::string key = problem.where.substr(place + 2);
  while (explain_key(key).empty() && key.find('.') != std::string::npos) key.resize(key.rfind('.'));
  return explain_key(key).empty() ? "" : fmt::format("{} --explain {} says what it means", tool.name, key);
}

/// Gives the options the values of a canonical document, and answers what is asked of them.
void finish(ParsedLine& line, const Tool& tool, Declaration& declaration, const Node& document,
            const Declaration* all_programs) {
  line.settings = apply(declaration, document, line.problems, all_programs);
  if (line.common.print_config) {
    line.answer = to_yaml(line.settings, tool, *line.common.print_config);
  } else if (line.problems.all_files_read()) {
    require(declaration, document, line.problems);
  }
}

/// The same line in the words of a dialect.
ParsedLine parse_dialect(const Tool& tool, Declaration& declaration, const std::vector<std::string>& arguments,
                         Layers layers, const Problems& of_files) {
  ParsedLine line;
  line.problems = of_files;
  Declaration common;
  describe(common, line.common, tool);
  const Declaration words = declaration_of(*layers.dialect, declaration);
  SortedArguments sorted = sort_arguments(tool, common, words, arguments, line.problems, explain_unknown);
  apply(common, sorted.common, line.problems);
  Node own;  // options that are the same in every dialect
  own.kind = Node::Kind::map;
  std::erase_if(sorted.configuration.entries, [&](Node::Entry& entry) {
    if (declaration.find(entry.key) == nullptr) return false;
    own.entries.push_back(std::move(entry));
    return true;
  });
  merge(layers.document, sorted.configuration);
  for (const auto& [path, value] : sorted.elements) set_element(layers.document, words, path, value, line.problems);
  Node document = canonical_document(std::move(layers), line.problems);
  std::erase_if(document.entries, [&](const Node::Entry& entry) {  // options that are other programs' own
    return entry.value.kind != Node::Kind::map && declaration.find(entry.key) == nullptr;
  });
  merge(document, own);
  finish(line, tool, declaration, document, options_of_all_programs(tool.name));
  return line;
}

}  // namespace

void open_named_plugins(const Tool& tool, const Declaration& declaration, const std::vector<std::string>& arguments) {
  Problems told_later;
  CommonOptions common;
  Declaration of_all;
  describe(of_all, common, tool);
  const SortedArguments sorted = sort_arguments(tool, of_all, declaration, arguments, told_later);
  apply(of_all, sorted.common, told_later);
  Node named;
  for (const std::string& file : common.config) {
    if (kind_of(file) != FileKind::file) continue;
    const Layers layers = load_layers({file}, "", nullptr, told_later);
    if (const Node* const files = plugins_named(layers.document)) named = *files;
  }
  if (const Node* const said = sorted.configuration.find("plugin")) named = *said;
  for (const Node& file : named.kind == Node::Kind::scalar ? std::vector{named} : named.items)
    if (file.kind == Node::Kind::scalar) Plugins::opened().open(expand_path(file.text));
}

ParsedLine parse_arguments(const Tool& tool, Declaration& declaration, const std::vector<std::string>& arguments) {
  ParsedLine line;
  Declaration common;
  describe(common, line.common, tool);
  SortedArguments sorted = sort_arguments(tool, common, declaration, arguments, line.problems, explain_unknown);
  Problems found;  // of what is not read in these words after all
  apply(common, sorted.common, found);
  line.answer = answer_at_once(tool, line.common, declaration);
  if (line.answer) {
    line.problems = {};
    return line;
  }
  const Declaration* const all = options_of_all_programs(tool.name);
  std::vector<std::string> files = line.common.config;
  std::erase_if(files, [](const std::string& file) { return kind_of(file) != FileKind::file; });
  Problems of_files;
  Layers layers = load_layers(files, line.common.dialect.value_or(""), all, of_files);
  if (layers.dialect != nullptr) return parse_dialect(tool, declaration, arguments, std::move(layers), of_files);
  apply(common, sorted.common, line.problems);
  layers = load_layers(line.common.config, line.common.dialect.value_or(""), all, line.problems);
  Node& document = layers.document;
  merge(document, sorted.configuration);
  for (const auto& [path, value] : sorted.elements) set_element(document, declaration, path, value, line.problems);
  finish(line, tool, declaration, document, line.common.config.empty() ? nullptr : all);
  return line;
}

void raise(const Tool& tool, const Declaration& declaration, const Problems& problems, const Settings& settings) {
  if (problems.empty()) return;
  const std::vector<Problems::Entry>& entries = problems.entries();
  std::string hint = fmt::format("{} --help lists the options", tool.name);
  if (entries.size() == 1) {
    const Option* const option =
        entries.front().options.size() == 1 ? declaration.find(entries.front().options.front()) : nullptr;
    if (option != nullptr && entries.front().text.find(option->facts.brief) == std::string::npos)
      hint = hint_in_dialect(one_line_help(*option), settings);
    else if (const std::string of_key = hint_for_key(tool, entries.front()); !of_key.empty())
      hint = of_key;
    throw Error(ExitCode::usage, explain(entries.front(), settings), hint);
  }
  std::string message = fmt::format("{} problems in the configuration", entries.size());
  for (const Problems::Entry& entry : entries) message += "\n" + explain(entry, settings);
  throw Error(ExitCode::usage, message, hint);
}

std::string hint_in_dialect(const std::string& hint, const Settings& settings) {
  if (std::ranges::none_of(settings, is_translated)) return hint;
  constexpr std::string_view dashes = "--", of_names = "abcdefghijklmnopqrstuvwxyz_0123456789.";
  std::string text;
  std::size_t at = 0;
  for (std::size_t next = hint.find(dashes); next != std::string::npos; next = hint.find(dashes, at)) {
    const std::size_t begin = next + dashes.size();
    std::string name = hint.substr(begin, hint.find_first_not_of(of_names, begin) - begin);
    if (name.ends_with('.')) name.pop_back();  // it ends the sentence
    const bool in_section = name.find('.') != std::string::npos && !origin_of(settings, name).empty();
    text += hint.substr(at, begin - at) + (in_section ? "lockstep." : "") + name;
    at = begin + name.size();
  }
  return text + hint.substr(at);
}

std::string dialect_keys_of(const Error& error, const Settings& settings) {
  const std::string text = std::string(error.what()) + " " + error.hint();
  const auto names = [&](const std::string& option) {
    constexpr std::string_view inner = "abcdefghijklmnopqrstuvwxyz_0123456789";
    for (std::size_t at = text.find(option); at != std::string::npos; at = text.find(option, at + 1)) {
      const std::size_t end = at + option.size();
      if (end == text.size() || inner.find(text[end]) == std::string_view::npos) return true;
    }
    return false;
  };
  std::vector<std::string> places;
  for (const Setting& setting : settings) {
    if (is_translated(setting) && names(setting.path))
      places.push_back(fmt::format("{} from {}", setting.path, setting.origin));
  }
  return places.empty() ? "" : fmt::format(" ({})", join(places, ", "));
}

}  // namespace lockstep
