#include "base/own_files.hpp"

#include "base/error.hpp"

#include <string_view>

namespace lockstep {

namespace {

bool is_temporary(std::string_view name) {
  constexpr std::size_t digits = 32;  // of a random token
  if (!name.starts_with('.') || name.size() < digits + 3) return false;
  const std::string_view token = name.substr(name.size() - digits);
  return name[name.size() - digits - 1] == '.' && token.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Path temporary_beside(const Path& path, const std::string& token) {
  return path.parent_path() / fmt::format(".{}.{}", path.filename().string(), token);
}

void remove_temporaries(const Path& folder) {
  for (const Path& path : list_folder(folder)) {
    if (is_temporary(path.filename().string()) && kind_of_name(path) == FileKind::file) remove_tree(path);
  }
}

void refuse_link(const Path& path) {
  if (kind_of_name(path) != FileKind::link) return;
  throw Error(ExitCode::storage, fmt::format("cannot write {}: it is a symbolic link", path.string()),
              "programs do not write through links: remove the link, or replace it by the file itself");
}

}  // namespace lockstep
