// Where models keep their chat templates: a file of its own, or tokenizer_config.json.
#pragma once

#include "base/files.hpp"
#include "base/json.hpp"

#include <string>

namespace lockstep {

struct ChatTemplateFile {
  std::string text;
  std::string origin;  // the file, for messages
  Json variables;      // an object: bos_token, eos_token … as texts
};

/// The template of a model's folder, of a chat_template.jinja (or any other file of a template alone), or of a
/// tokenizer_config.json, with the special tokens that tokenizer_config.json and special_tokens_map.json beside it
/// name. `name`: which one of several; "default" without one. Throws Error(input) where there is none, Error(storage).
ChatTemplateFile read_chat_template(const Path& path, const std::string& name = {});

/// Adds the special tokens that a tokenizer_config.json names, texts or objects with a content.
void add_special_tokens(Json& variables, const Json& config);

}  // namespace lockstep
