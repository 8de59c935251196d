// Detection of configurations in a template language, such as Forgather projects: Jinja with line statements and
// bracketed blocks. Such a file is not YAML. The program that it belongs to can print the final values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

struct ForeignTemplate {
  std::size_t line = 0;  // from 1
  std::string seen;      // "-- extends", "[config]", "{%"
};

/// Returns the first template construct in a text that is not YAML; nothing if there is none. Comments do not count.
/// Pure.
std::optional<ForeignTemplate> find_foreign_template(std::string_view text);

}  // namespace lockstep
