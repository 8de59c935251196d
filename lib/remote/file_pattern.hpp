// Patterns for names of remote files, on the hub or in an object store.
#pragma once

#include <string_view>

namespace lockstep {

/// Returns whether a path with slashes matches: *, ? and [...] within a name, ** for any number of folders. A leading
/// dot of a name needs a dot in the pattern. A pattern that matches a folder matches everything in it.
bool matches_files(std::string_view pattern, std::string_view path);

}  // namespace lockstep
