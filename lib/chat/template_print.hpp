// Values as text: as a template puts them out, as Python's repr writes them inside of lists and dicts, and as JSON.
#pragma once

#include "chat/template_value.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::jinja {

/// What str() says of a value. Text and undefined values need no copy. Throws TemplateFault for what has no text that
/// means anything: functions, generators, namespaces.
std::string_view text_of(const Value& value, TemplateMemory& memory);
void append_text(std::string& out, const Value& value, TemplateMemory& memory);
void append_repr_of(std::string& out, const Value& value, TemplateMemory& memory);

/// How json.dumps is asked to write.
struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent;  // of one level
  std::string between_items = ", ";
  std::string after_key = ": ";
  bool sorted_keys = false;
};
/// json.dumps. Throws TemplateFault for what JSON does not have.
std::string json_text(const Value& value, const JsonStyle& style, TemplateMemory& memory);

}  // namespace lockstep::jinja
