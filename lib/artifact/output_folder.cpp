#include "artifact/output_folder.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include <cerrno>

namespace lockstep {

void check_place(const Path& place, ExistingExport existing, const std::string& marker) {
  const FileKind kind = kind_of_name(place);
  if (kind == FileKind::nothing) return;
  if (kind != FileKind::folder) fail(ExitCode::usage, "{} exists and is not a folder", place.string());
  if (list_folder(place).empty()) return;
  if (existing == ExistingExport::refuse)
    throw Error(ExitCode::usage, fmt::format("{} exists and is not empty", place.string()),
                "--overwrite, or another --output");
  if (!is_there(place / marker)) {
    throw Error(
        ExitCode::usage,
        fmt::format("{} is not an earlier export (it has no {}): it is not overwritten", place.string(), marker),
        "another --output");
  }
}

OutputFolder::OutputFolder(Path place, ExistingExport existing, std::string marker)
    : place_(absolute_path(place)), existing_(existing), marker_(std::move(marker)) {
  staged_ = place_.parent_path() / fmt::format(".{}.unfinished", place_.filename().string());
  check_place(place_, existing_, marker_);
  make_folder(staged_);
  lock_ = open_file(staged_, O_RDONLY | O_DIRECTORY);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail_errno("lock", staged_);
    lock_ = FileDescriptor();
    staged_.clear();  // the other's
    fail(ExitCode::usage, "another process is writing {}", place_.string());
  }
  for (const Path& path : list_folder(staged_)) remove_tree(path);
}

OutputFolder::~OutputFolder() {
  if (!staged_.empty()) try_remove_tree(staged_);  // else by the next export to this place
}

void OutputFolder::publish() {
  check_place(place_, existing_, marker_);
  sync_folder(staged_);
  if (!is_there(place_)) {
    publish_rename(staged_, place_);
    staged_.clear();
    return;
  }
  if (::renameat2(AT_FDCWD, staged_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail_errno(fmt::format("exchange {} with", staged_.string()), place_);
    remove_tree(place_);  // a file system without exchange: for a moment neither is there
    publish_rename(staged_, place_);
    staged_.clear();
    return;
  }
  sync_folder(place_.parent_path());  // the destructor removes the earlier export, now under the hidden name
}

}  // namespace lockstep
