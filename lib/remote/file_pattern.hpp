// Patterns of names of files that lie elsewhere, of the hub or an object store.
#pragma once

#include <string_view>

namespace lockstep {

/// Whether a path with slashes matches: * and ? and [...] within a name, ** over any number of folders. A pattern that
/// matches a folder matches all that is in it.
bool matches_files(std::string_view pattern, std::string_view path);

}  // namespace lockstep
