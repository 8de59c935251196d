#include "base/output_folder.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr const char* owner_file = ".lockstep-stage";  // in a hidden folder: without it, the folder is a stranger's
constexpr const char* earlier_name = "earlier";        // in it: the folder that gives way
constexpr std::size_t random_digits = 32;

std::string stage_prefix(const Path& target) { return fmt::format(".{}.stage-", target.filename().string()); }

Path lock_of(const Path& target) { return target.parent_path() / fmt::format(".{}.lock", target.filename().string()); }

bool is_ours(const Path& stage) {
  struct stat status{};
  if (::lstat(stage.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) return false;
  return kind_of_name(stage / owner_file) == FileKind::file;
}

bool is_random_name(std::string_view text) {
  return text.size() == random_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The hidden folders that processes have left beside a target. The names of strangers' things may be like theirs.
std::vector<Path> stages_beside(const Path& target) {
  const std::string prefix = stage_prefix(target);
  std::vector<Path> stages;
  for (const Path& path : list_folder(target.parent_path())) {
    const std::string name = path.filename().string();
    if (name.starts_with(prefix) && is_random_name(std::string_view(name).substr(prefix.size())))
      stages.push_back(path);
  }
  return stages;
}

void empty_stage(const Path& stage, const Path& kept) {
  for (const Path& path : list_folder(stage)) {
    if (path.filename() != owner_file && path != kept) remove_tree(path);
  }
}

// The mark of its owner goes last, so that a process that is killed here leaves what the next one knows.
void remove_stage(const Path& stage) {
  empty_stage(stage, {});
  remove_tree(stage);
}

/// The same folder under any name.
using FolderIdentity = std::pair<dev_t, ino_t>;
FolderIdentity identity_of(const Path& folder) {
  struct stat status{};
  return ::lstat(folder.c_str(), &status) == 0 ? FolderIdentity(status.st_dev, status.st_ino) : FolderIdentity();
}

void clean_up(const Path& target) {
  for (const Path& stage : stages_beside(target)) {
    if (!is_ours(stage)) {
      ::rmdir(stage.c_str());  // of a process that was killed before it marked it, if it is empty
      continue;
    }
    const Path earlier = stage / earlier_name;
    if (kind_of_name(earlier) == FileKind::folder && kind_of_name(target) == FileKind::nothing)
      publish_rename(earlier, target);
    remove_stage(stage);
  }
}

void list_below(const Path& folder, std::vector<Path>& paths) {
  for (const Path& path : list_folder(folder)) {
    if (kind_of_name(path) == FileKind::folder)
      list_below(path, paths);
    else
      paths.push_back(path);
  }
}

void refuse_foreign(const Path& target, const OutputKind& kind) {
  std::vector<Path> paths;
  list_below(target, paths);
  const std::set<Path> known = kind.files(target);
  std::vector<std::string> foreign;
  for (const Path& path : paths) {
    const Path name = path.lexically_relative(target);
    if (!known.contains(name) || kind_of_name(path) != FileKind::file) foreign.push_back(name.string());
  }
  if (foreign.empty()) return;
  const std::size_t others = foreign.size() - 1;
  throw Error(ExitCode::usage,
              fmt::format("cannot replace the {} {}: it holds {}{}, which is not part of it", kind.name,
                          target.string(), foreign.front(), others > 0 ? fmt::format(" and {} more", others) : ""),
              "move it away, or choose another --output");
}

}  // namespace

void check_target(const Path& target, const OutputKind& kind, Existing existing) {
  const FileKind found = kind_of_name(absolute_path(target));
  if (found == FileKind::nothing) return;
  if (found == FileKind::folder && list_folder(target).empty()) return;
  if (found != FileKind::folder || !is_there(target / kind.marker)) {
    throw Error(ExitCode::usage,
                fmt::format("cannot create the {} {}: {} is there", kind.name, target.string(),
                            found == FileKind::folder ? fmt::format("a folder that holds no {}", kind.marker)
                            : found == FileKind::link ? "a link"
                                                      : "a file"),
                "choose another --output");
  }
  if (existing == Existing::refuse) {
    throw Error(ExitCode::usage,
                fmt::format("cannot create the {} {}: there is one already", kind.name, target.string()),
                kind.files ? "replace it with --overwrite, or choose another --output"
                           : "remove it, or choose another --output");
  }
  refuse_foreign(target, kind);
}

OutputFolder::OutputFolder(const Path& target, OutputKind kind, Existing existing)
    : target_(absolute_path(target)), kind_(std::move(kind)), existing_(existing) {
  check_target(target_, kind_, existing_);  // before anything is written
  const Path parent = target_.parent_path();
  make_folder(parent);
  lock_.emplace(lock_of(target_),
                fmt::format("cannot create the {} {}: it is being made", kind_.name, target_.string()),
                "wait for it, or choose another --output");
  clean_up(target_);
  check_target(target_, kind_, existing_);
  const Path stage = parent / (stage_prefix(target_) + make_uuid());
  if (::mkdir(stage.c_str(), 0777) != 0) fail_errno("create folder", stage);
  stage_ = stage;
  try {
    open_file(stage_ / owner_file, O_WRONLY | O_CREAT | O_EXCL);
    make_folder(content());
  } catch (...) {
    try_remove_tree(stage_);
    throw;
  }
}

OutputFolder::~OutputFolder() {
  try {
    if (kept_)
      empty_stage(stage_, *kept_);
    else
      remove_stage(stage_);
  } catch (...) {  // the next process does it
  }
}

void OutputFolder::publish() {
  check_target(target_, kind_, existing_);
  if (!lock_->is_held()) {
    fail(ExitCode::storage, "cannot create the {} {}: another process removed its lock", kind_.name, target_.string());
  }
  sync_folder(content());
  const bool replaces = is_there(target_) && !list_folder(target_).empty();
  if (replaces)
    replace();
  else
    durable_rename(content(), target_);
}

void OutputFolder::replace() {
  const FolderIdentity earlier = identity_of(target_);
  try {
    exchange_or_move();
  } catch (const Error& error) {
    if (identity_of(target_) == earlier) throw;
    kept_ = identity_of(content()) == earlier ? content() : stage_ / earlier_name;
    const bool is_taken = identity_of(target_) != FolderIdentity();  // by the new one
    throw Error(ExitCode::storage,
                fmt::format("{}; the earlier {} could not be restored and is now in {}", error.what(), kind_.name,
                            kept_->string()),
                fmt::format("{}mv {} {}", is_taken ? fmt::format("mv {0} {0}.new && ", target_.string()) : "",
                            kept_->string(), target_.string()));
  }
}

void OutputFolder::exchange_or_move() {
  if (durable_exchange(content(), target_)) return;
  const Path earlier = stage_ / earlier_name;
  if (::rename(target_.c_str(), earlier.c_str()) != 0) fail_errno("move away", target_);
  try {
    durable_rename(content(), target_);
  } catch (...) {
    ::rename(earlier.c_str(), target_.c_str());
    throw;
  }
}

void clean_up_beside(const Path& target, const std::function<void()>& more) {
  const Path place = absolute_path(target);
  std::optional<FileLock> lock;
  try {
    lock.emplace(lock_of(place), "it is being made", "");
  } catch (const LockHeld&) {
    return;
  }
  clean_up(place);
  more();
}

std::optional<Path> moved_away_from(const Path& target) {
  const Path place = absolute_path(target);
  if (is_there(place) || !is_folder(place.parent_path())) return std::nullopt;
  for (const Path& stage : stages_beside(place)) {
    if (kind_of_name(stage / earlier_name) == FileKind::folder) return stage / earlier_name;
  }
  return std::nullopt;
}

}  // namespace lockstep
