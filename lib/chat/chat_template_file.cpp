#include "chat/chat_template_file.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <optional>
#include <vector>

namespace lockstep {

namespace {

constexpr const char* config_name = "tokenizer_config.json";
constexpr const char* template_name = "chat_template.jinja";

std::optional<Json> object_in(const Path& path) {
  if (!is_there(path)) return std::nullopt;
  Json json = parse_json(read_file(path), path.string());
  if (!json.is_object()) fail(ExitCode::input, "{}: an object is expected", path.string());
  return json;
}

Json tokens_beside(const Path& folder) {
  Json variables = Json::object();
  if (const auto map = object_in(folder / "special_tokens_map.json")) add_special_tokens(variables, *map);
  if (const auto config = object_in(folder / config_name)) add_special_tokens(variables, *config);
  return variables;
}

/// What `chat_template` of a configuration is: one text, or several by their names.
std::string template_in(const Json& config, const std::string& name, const std::string& origin) {
  const auto none = [&] {
    fail(ExitCode::input, "{}: there is no chat_template{}", origin, name.empty() ? "" : " '" + name + "'");
  };
  if (!config.contains("chat_template") || config["chat_template"].is_null()) none();
  const Json& found = config["chat_template"];
  if (found.is_string()) {
    if (!name.empty() && name != "default") none();
    return found.get<std::string>();
  }
  const std::string wanted = name.empty() ? "default" : name;
  std::vector<std::string> names;
  if (!found.is_array()) fail(ExitCode::input, "{}: chat_template is neither a text nor a list of templates", origin);
  for (const Json& one : found) {
    if (!one.is_object() || !one.contains("name") || !one.contains("template") || !one["name"].is_string() ||
        !one["template"].is_string())
      fail(ExitCode::input, "{}: a template of chat_template lacks its name or its text", origin);
    names.push_back(one["name"].get<std::string>());
    if (names.back() == wanted) return one["template"].get<std::string>();
  }
  fail(ExitCode::input, "{}: there is no chat_template '{}'; there are: {}", origin, wanted, join(names, ", "));
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

ChatTemplateFile read_chat_template(const Path& path, const std::string& name) {
  const bool folder = is_folder(path);
  const Path home = folder ? path : path.parent_path();
  const auto of_file = [&](const Path& file) {
    return ChatTemplateFile{.text = read_file(file), .origin = file.string(), .variables = tokens_beside(home)};
  };
  if (!folder && path.extension() != ".json") {
    if (!name.empty() && name != "default")
      fail(ExitCode::input, "{}: one template has no other of the name '{}'", path.string(), name);
    return of_file(path);
  }
  if (folder) {
    const bool other = !name.empty() && name != "default";
    const Path file = other ? path / "additional_chat_templates" / (name + ".jinja") : path / template_name;
    if (is_there(file)) return of_file(file);
  }
  const Path config = folder ? path / config_name : path;
  if (!is_there(config))
    fail(ExitCode::input, "{}: there is no chat template: neither {} nor {}", path.string(), template_name,
         config_name);
  const auto json = object_in(config);
  Json variables = tokens_beside(home);
  add_special_tokens(variables, *json);
  return {
      .text = template_in(*json, name, config.string()), .origin = config.string(), .variables = std::move(variables)};
}

}  // namespace lockstep
