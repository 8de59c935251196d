// Where models keep their chat templates: a file of its own, or tokenizer_config.json.
#pragma once

#include "base/files.hpp"
#include "base/json.hpp"

#include <map>
#include <string>
#include <vector>

namespace lockstep {

struct ChatTemplateFile {
  std::string text;
  std::string origin;  // the file, for messages
  Json variables;      // an object: bos_token, eos_token … as texts
};

/// The names of templates that transformers takes by itself: without tools, and with tools.
inline constexpr const char* default_template = "default";
inline constexpr const char* tool_template = "tool_use";

/// In the folder of a model or tokenizer: the template by the name "default", and a folder of others, NAME.jinja.
inline constexpr const char* template_file = "chat_template.jinja";
inline constexpr const char* additional_templates_folder = "additional_chat_templates";
/// The files of these others; none where there are none. Throws Error(storage). Local.
std::vector<Path> additional_template_files(const Path& folder);

/// The templates by name, as transformers reads them: of a model's folder its chat_template.jinja and
/// additional_chat_templates/NAME.jinja, or without any of these its tokenizer_config.json; of a file the one template
/// in it, or those of a tokenizer_config.json. Each has the special tokens that tokenizer_config.json and
/// special_tokens_map.json beside it name. Throws Error(input) where there is none, Error(storage).
std::map<std::string, ChatTemplateFile> read_chat_templates(const Path& path);

/// One of these; `name` empty: "default". Throws as read_chat_templates, and Error(input) where there is no such one.
ChatTemplateFile read_chat_template(const Path& path, const std::string& name = {});

/// Adds the special tokens that a tokenizer_config.json names, texts or objects with a content.
void add_special_tokens(Json& variables, const Json& config);

}  // namespace lockstep
