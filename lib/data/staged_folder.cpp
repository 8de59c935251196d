#include "data/staged_folder.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

namespace lockstep {

namespace {

// Without the slash that a user may put at its end.
Path named(const Path& folder) { return absolute_path(folder); }

void refuse_unless_free(const Path& target, ExistingDataset existing) {
  const FileKind kind = kind_of(target);
  if (kind == FileKind::nothing) return;
  if (kind == FileKind::folder && list_folder(target).empty()) return;
  if (kind != FileKind::folder || !is_there(target / "DATASET.json")) {
    throw Error(ExitCode::usage,
                fmt::format("cannot create the dataset {}: {} that is not a dataset is there", target.string(),
                            kind == FileKind::folder ? "a folder" : "a file"),
                "choose another --output");
  }
  if (existing == ExistingDataset::refuse) {
    throw Error(ExitCode::usage, fmt::format("cannot create the dataset {}: there is one already", target.string()),
                "replace it with --overwrite, or choose another --output");
  }
}

}  // namespace

Path StagedFolder::path_for(const Path& target) {
  const Path folder = named(target);
  return folder.parent_path() / fmt::format(".{}.stage", folder.filename().string());
}

StagedFolder::StagedFolder(const Path& target, ExistingDataset existing)
    : target_(named(target)), path_(path_for(target)) {
  refuse_unless_free(target_, existing);
  if (is_there(path_)) {
    lock();  // fails if its maker is alive
    remove_tree(path_);
  }
  make_folder(path_);
  lock();
}

StagedFolder::~StagedFolder() {
  if (!published_) try_remove_tree(path_);
}

void StagedFolder::lock() {
  lock_ = open_file(path_ / ".lock", O_RDWR | O_CREAT);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
  throw Error(ExitCode::resources,
              fmt::format("cannot create the dataset {}: another prepare-data is making it", target_.string()),
              fmt::format("wait for it; if there is none, remove {}", path_.string()));
}

void StagedFolder::publish() {
  std::error_code ignored;
  std::filesystem::remove(path_ / ".lock", ignored);
  sync_folder(path_);
  const bool replaces = is_there(target_) && !list_folder(target_).empty();
  if (!replaces) {
    publish_rename(path_, target_);
    published_ = true;
    return;
  }
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    sync_folder(target_.parent_path());
    published_ = true;
    remove_tree(path_);  // the old one
    return;
  }
  const Path old = target_.parent_path() / fmt::format(".{}.old", target_.filename().string());
  remove_tree(old);
  publish_rename(target_, old);  // this file system cannot exchange
  publish_rename(path_, target_);
  published_ = true;
  remove_tree(old);
}

}  // namespace lockstep
