#include "chat/chat_template_file.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr const char* config_name = "tokenizer_config.json";

std::optional<Json> object_in(const Path& path) {
  if (!is_there(path)) return std::nullopt;
  Json json = parse_json(read_file(path), path.string());
  if (!json.is_object()) fail(ExitCode::input, "{} is not a JSON object", path.string());
  return json;
}

Json tokens_beside(const Path& folder) {
  Json variables = Json::object();
  if (const auto map = object_in(folder / "special_tokens_map.json")) add_special_tokens(variables, *map);
  if (const auto config = object_in(folder / config_name)) add_special_tokens(variables, *config);
  return variables;
}

/// Names become names of files where a tokenizer is saved.
bool can_name_a_file(const std::string& name) {
  return !name.empty() && !name.starts_with('.') && name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

/// What `chat_template` of a configuration has: one text, or several by their names.
std::map<std::string, std::string> templates_in(const Json& config, const std::string& origin) {
  if (!config.contains("chat_template") || config["chat_template"].is_null())
    fail(ExitCode::input, "{} has no chat_template", origin);
  const Json& found = config["chat_template"];
  if (found.is_string()) return {{default_template, found.get<std::string>()}};
  if (!found.is_array()) fail(ExitCode::input, "{}: chat_template is neither a string nor a list of templates", origin);
  std::map<std::string, std::string> texts;
  for (const Json& one : found) {
    if (!one.is_object() || !one.contains("name") || !one.contains("template") || !one["name"].is_string() ||
        !one["template"].is_string())
      fail(ExitCode::input, "{}: an entry of chat_template has no name or no template", origin);
    const auto name = one["name"].get<std::string>();
    if (!can_name_a_file(name))
      fail(ExitCode::input, "{}: the template name {} cannot be a file name", origin, to_text(Json(name)));
    texts.insert_or_assign(name, one["template"].get<std::string>());
  }
  return texts;
}

}  // namespace

void add_special_tokens(Json& variables, const Json& config) {
  for (const auto& [name, value] : config.items()) {
    if (!name.ends_with("_token")) continue;
    if (value.is_string()) variables[name] = value;
    if (value.is_object() && value.contains("content") && value["content"].is_string())
      variables[name] = value["content"];
  }
}

bool is_chat_template(std::string_view text) {
  return text.find("{%") != std::string_view::npos || text.find("{{") != std::string_view::npos;
}

std::vector<Path> additional_template_files(const Path& folder) {
  const Path others = folder / additional_templates_folder;
  std::vector<Path> files;
  if (!is_folder(others)) return files;
  for (const Path& path : list_folder(others))
    if (path.extension() == ".jinja") files.push_back(path);
  return files;
}

std::map<std::string, ChatTemplateFile> read_chat_templates(const Path& path) {
  const bool folder = is_folder(path);
  Json variables = tokens_beside(folder ? path : path.parent_path());
  std::map<std::string, ChatTemplateFile> templates;
  const auto add_file = [&](const std::string& name, const Path& file) {
    templates[name] = {.text = read_file(file), .origin = file.string(), .variables = variables};
  };
  if (!folder && path.extension() != ".json") add_file(default_template, path);
  if (folder && is_there(path / template_file)) add_file(default_template, path / template_file);
  if (folder)
    for (const Path& file : additional_template_files(path)) add_file(file.stem().string(), file);
  if (!templates.empty()) return templates;
  const Path config = folder ? path / config_name : path;
  if (!is_there(config))
    fail(ExitCode::input, "{} has no chat template: neither {} nor {}", path.string(), template_file, config_name);
  const auto json = object_in(config);
  add_special_tokens(variables, *json);
  for (auto& [name, text] : templates_in(*json, config.string()))
    templates[name] = {.text = std::move(text), .origin = config.string(), .variables = variables};
  return templates;
}

ChatTemplateFile read_chat_template(const Path& path, const std::string& name) {
  std::map<std::string, ChatTemplateFile> templates = read_chat_templates(path);
  const auto found = templates.find(name.empty() ? default_template : name);
  if (found != templates.end()) return std::move(found->second);
  std::vector<std::string> names;
  for (const auto& [other, file] : templates) names.push_back(other);
  fail(ExitCode::input, "{} has no chat template '{}'; it has: {}", path.string(),
       name.empty() ? default_template : name, join(names, ", "));
}

}  // namespace lockstep
