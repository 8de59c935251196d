#include "artifact/output_folder.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include <cerrno>

namespace lockstep {

namespace {

Path without_trailing_slash(const Path& path) {
  const Path normal = std::filesystem::absolute(path).lexically_normal();
  return normal.filename().empty() ? normal.parent_path() : normal;
}

}  // namespace

void check_place(const Path& place, ExistingExport existing, const std::string& marker) {
  std::error_code ignored;  // what cannot be looked at fails when it is written
  const auto status = std::filesystem::symlink_status(place, ignored);
  if (!std::filesystem::exists(status)) return;
  if (!std::filesystem::is_directory(status)) fail(ExitCode::usage, "{} exists and is not a folder", place.string());
  if (std::filesystem::is_empty(place, ignored)) return;
  if (existing == ExistingExport::refuse)
    throw Error(ExitCode::usage, fmt::format("{} exists and is not empty", place.string()),
                "--overwrite, or another --output");
  if (!std::filesystem::exists(place / marker, ignored)) {
    throw Error(
        ExitCode::usage,
        fmt::format("{} is not an earlier export (it has no {}): it is not overwritten", place.string(), marker),
        "another --output");
  }
}

OutputFolder::OutputFolder(Path place, ExistingExport existing, std::string marker)
    : place_(without_trailing_slash(place)), existing_(existing), marker_(std::move(marker)) {
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
  for (const auto& entry : std::filesystem::directory_iterator(staged_)) std::filesystem::remove_all(entry.path());
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;  // what cannot be removed now is removed by the next export to this place
  if (!staged_.empty()) std::filesystem::remove_all(staged_, ignored);
}

void OutputFolder::publish() {
  check_place(place_, existing_, marker_);
  sync_folder(staged_);
  std::error_code ignored;
  if (!std::filesystem::exists(place_, ignored)) {
    publish_rename(staged_, place_);
    staged_.clear();
    return;
  }
  if (::renameat2(AT_FDCWD, staged_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail_errno(fmt::format("exchange {} with", staged_.string()), place_);
    std::filesystem::remove_all(place_);  // a file system without exchange: for a moment neither is there
    publish_rename(staged_, place_);
    staged_.clear();
    return;
  }
  sync_folder(place_.parent_path());  // the destructor removes the earlier export, now under the hidden name
}

}  // namespace lockstep
