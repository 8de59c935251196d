#include "options/path_text.hpp"

#include "base/error.hpp"

#include <cstdlib>
#include <string_view>

namespace lockstep {

namespace {

constexpr std::string_view capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", small = "abcdefghijklmnopqrstuvwxyz";

bool is_in_name(char c, bool first) {
  return c == '_' || capitals.find(c) != std::string_view::npos || small.find(c) != std::string_view::npos ||
         (!first && c >= '0' && c <= '9');
}

bool starts_in_home(const std::string& text) { return text == "~" || text.starts_with("~/"); }

std::string variable(const std::string& name, const std::string& text) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0')
    fail(ExitCode::usage, "\"{}\": the environment variable {} is {}", text, name,
         value == nullptr ? "not set" : "empty");
  return value;
}

/// What a name is that begins at `at`; empty if none does.
std::string name_at(const std::string& text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_in_name(text[end], end == at)) ++end;
  return text.substr(at, end - at);
}

}  // namespace

std::string expand_path(const std::string& text) {
  std::string path;
  std::size_t at = 0;
  if (starts_in_home(text)) {
    path = variable("HOME", text);
    at = 1;
  }
  while (at < text.size()) {
    const bool braces = text.compare(at, 2, "${") == 0;
    const std::string name = text[at] == '$' ? name_at(text, at + (braces ? 2 : 1)) : "";
    if (text.compare(at, 2, "$$") == 0) {
      path += '$';
      at += 2;
    } else if (braces) {
      const std::size_t end = at + 2 + name.size();
      if (name.empty() || end >= text.size() || text[end] != '}')
        fail(ExitCode::usage, "\"{}\": after ${{, the name of an environment variable and }} are expected", text);
      path += variable(name, text);
      at = end + 1;
    } else if (!name.empty()) {
      path += variable(name, text);
      at += 1 + name.size();
    } else {
      path += text[at++];
    }
  }
  return path;
}

std::string escape_path(const std::string& path) {
  std::string text = starts_in_home(path) ? "./" : "";
  for (const char c : path) text += c == '$' ? std::string("$$") : std::string(1, c);
  return text;
}

}  // namespace lockstep
