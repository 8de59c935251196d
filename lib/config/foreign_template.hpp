// Configurations that are written in a template language, as the projects of Forgather are: Jinja with line statements
// and blocks in brackets, and YAML whose tags construct objects. They are no YAML of values; whoever made them can
// print what they come to.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

struct ForeignTemplate {
  std::size_t line = 0;  // from 1
  std::string seen;      // "-- extends", "[config]", "{%", "!call"
};

/// The first of it in the text of a file; nothing if there is none. Comments and what is quoted do not count. Pure.
std::optional<ForeignTemplate> find_foreign_template(std::string_view text);

}  // namespace lockstep
