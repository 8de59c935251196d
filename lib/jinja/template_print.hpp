// Converts values to text: as a template outputs them, as Python's repr writes them within lists and dicts, and as
// JSON.
#pragma once

#include "jinja/template_value.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::jinja {

/// Python's str(value). Text and undefined values need no copy. Throws TemplateFault for values without a useful text:
/// functions, generators, namespaces.
std::string_view text_of(const Value& value, TemplateMemory& memory);
void append_text(std::string& out, const Value& value, TemplateMemory& memory);
void append_repr_of(std::string& out, const Value& value, TemplateMemory& memory);

/// Options of json.dumps.
struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent;  // of one level
  std::string between_items = ", ";
  std::string after_key = ": ";
  bool sorted_keys = false;
};
/// Python's json.dumps(value). Throws TemplateFault for values that JSON cannot represent.
std::string json_text(const Value& value, const JsonStyle& style, TemplateMemory& memory);

}  // namespace lockstep::jinja
