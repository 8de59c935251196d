// Paths as configurations write them: with the home folder and variables of the environment. The value of an option is
// a path where its facts say that names of files or folders complete it (config/option.hpp).
#pragma once

#include <string>

namespace lockstep {

/// The path that `text` means: a `~` that is all of it or stands before its first `/` is the home folder, $NAME and
/// ${NAME} are variables of the environment, $$ is a dollar sign; other dollar signs stay. Local.
/// Throws Error(usage) with the reason: a variable that is not set, or empty.
std::string expand_path(const std::string& text);

/// A text that expand_path() makes `path` of. Pure.
std::string escape_path(const std::string& path);

}  // namespace lockstep
