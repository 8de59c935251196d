// Paths in configurations, with the home folder and environment variables. An option's value is a path if its facts say
// that completion offers files or folders (options/option.hpp).
#pragma once

#include <string>

namespace lockstep {

/// Returns the expanded path. A `~` alone or before the first `/` is the home folder; $NAME and ${NAME} are environment
/// variables; $$ is a dollar sign. Other dollar signs stay. Local. Throws Error(usage) with the reason if a variable is
/// not set or empty.
std::string expand_path(const std::string& text);

/// Returns a text that expand_path() expands to `path`. Pure.
std::string escape_path(const std::string& path);

}  // namespace lockstep
