// Reads chat templates of models from their files: chat_template.jinja or tokenizer_config.json. Rendering:
// jinja/chat_template.hpp.
#pragma once

#include "base/files.hpp"
#include "base/json.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct ChatTemplateFile {
  std::string text;
  std::string origin;  // the file, for messages
  Json variables;      // an object: bos_token, eos_token … as texts
};

/// Names of the templates that transformers selects itself: without tools, and with tools.
inline constexpr const char* default_template = "default";
inline constexpr const char* tool_template = "tool_use";

/// Whether a text is a template, not the path of one: it has a statement or an expression of Jinja. Pure.
bool is_chat_template(std::string_view text);

/// In the folder of a model or tokenizer: the file of the template "default", and a folder with others, NAME.jinja.
inline constexpr const char* template_file = "chat_template.jinja";
inline constexpr const char* additional_templates_folder = "additional_chat_templates";
/// The files of these others; empty if there are none. Throws Error(storage). Local.
std::vector<Path> additional_template_files(const Path& folder);

/// The templates by name, as transformers reads them. From a model's folder: chat_template.jinja and
/// additional_chat_templates/NAME.jinja, or tokenizer_config.json if there are none of these. From a file: the one
/// template in it, or the templates of a tokenizer_config.json. Each comes with the special tokens that
/// tokenizer_config.json and special_tokens_map.json next to it name. Throws Error(input) if there is no template,
/// Error(storage).
std::map<std::string, ChatTemplateFile> read_chat_templates(const Path& path);

/// One of these templates; `name` empty: "default". Throws as read_chat_templates, and Error(input) if none has this
/// name.
ChatTemplateFile read_chat_template(const Path& path, const std::string& name = {});

/// Adds the special tokens that a tokenizer_config.json names, as texts or as objects with a content.
void add_special_tokens(Json& variables, const Json& config);

}  // namespace lockstep
