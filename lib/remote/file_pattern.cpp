#include "remote/file_pattern.hpp"

#include "base/text.hpp"

#include <fnmatch.h>

#include <string>
#include <vector>

namespace lockstep {

namespace {

bool parts_match(const std::vector<std::string>& pattern, std::size_t p, const std::vector<std::string>& path,
                 std::size_t at) {
  for (; p < pattern.size(); ++p, ++at) {
    if (pattern[p] == "**") {
      for (std::size_t next = at; next <= path.size(); ++next)
        if (parts_match(pattern, p + 1, path, next)) return true;
      return false;
    }
    if (at == path.size() || ::fnmatch(pattern[p].c_str(), path[at].c_str(), FNM_PERIOD) != 0) return false;
  }
  return true;  // all of the path, or a folder on its way
}

}  // namespace

bool matches_files(std::string_view pattern, std::string_view path) {
  if (pattern.starts_with("./")) pattern.remove_prefix(2);
  return parts_match(split(std::string(pattern), '/'), 0, split(std::string(path), '/'), 0);
}

}  // namespace lockstep
