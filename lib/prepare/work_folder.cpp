#include "prepare/work_folder.hpp"

#include "base/error.hpp"

#include <fcntl.h>

#include <fmt/format.h>

namespace lockstep {

namespace {

constexpr const char* owner_file = ".lockstep-work";  // without it, the folder is a stranger's

std::string prefix_of(const Path& target) { return fmt::format(".{}.work-", target.filename().string()); }

/// An empty folder is left by a job that was killed after it removed the mark.
bool is_ours(const Path& folder) {
  if (kind_of_name(folder) != FileKind::folder) return false;
  return kind_of_name(folder / owner_file) == FileKind::file || list_folder(folder).empty();
}

// The mark goes last, so that the next job knows what this one leaves if it is killed here.
void remove_work(const Path& folder) {
  for (const Path& path : list_folder(folder))
    if (path.filename() != owner_file) remove_tree(path);
  remove_tree(folder);
}

}  // namespace

WorkFolder::WorkFolder(const Path& target, const std::string& key)
    : path_(absolute_path(target).parent_path() / (prefix_of(absolute_path(target)) + key)) {
  const FileKind found = kind_of_name(path_);
  const bool is_new = found == FileKind::nothing || (found == FileKind::folder && list_folder(path_).empty());
  if (!is_new && !is_ours(path_))
    throw Error(ExitCode::usage, fmt::format("cannot work in {}: another program made it", path_.string()),
                "move it away, or choose another --output");
  if (!is_new) return;
  make_folder(path_);
  open_file(path_ / owner_file, O_WRONLY | O_CREAT | O_EXCL);
}

WorkFolder::~WorkFolder() {
  if (is_kept_) return;
  try {
    remove_work(path_);
  } catch (...) {  // the next job does it
  }
}

void remove_work_beside(const Path& target, const Path& kept) {
  const Path place = absolute_path(target);
  for (const Path& path : list_folder(place.parent_path()))
    if (path != kept && path.filename().string().starts_with(prefix_of(place)) && is_ours(path)) remove_work(path);
}

}  // namespace lockstep
