#include "base/files.hpp"

#include "base/error.hpp"
#include "base/own_files.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lockstep {

namespace {

FileKind kind_of_mode(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::file;
  if (S_ISDIR(mode)) return FileKind::folder;
  return S_ISLNK(mode) ? FileKind::link : FileKind::other;
}

FileKind kind_with(int (*look)(const char*, struct stat*), const Path& path) {
  struct stat status{};
  if (look(path.c_str(), &status) == 0) return kind_of_mode(status.st_mode);
  if (errno != ENOENT && errno != ENOTDIR) fail_errno("access", path);
  return FileKind::nothing;
}

[[noreturn]] void fail_no_file(const Path& path) {
  fail(ExitCode::input, "cannot open {}: no such file", path.string());
}

void refuse_no_file(mode_t mode, const Path& path) {
  if (S_ISREG(mode)) return;
  const char* const found = S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : "a device";
  fail(ExitCode::input, "cannot read {}: it is {}, not a file", path.string(), found);
}

}  // namespace

FileKind kind_of(const Path& path) { return kind_with(::stat, path); }
FileKind kind_of_name(const Path& path) { return kind_with(::lstat, path); }
bool is_there(const Path& path) { return kind_of(path) != FileKind::nothing; }
bool is_folder(const Path& path) { return kind_of(path) == FileKind::folder; }

std::vector<Path> list_folder(const Path& folder) {
  std::error_code error;
  std::vector<Path> paths;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) paths.push_back(at->path());
  if (error) fail(ExitCode::storage, "cannot list {}: {}", folder.string(), error.message());
  std::ranges::sort(paths);
  return paths;
}

void remove_tree(const Path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail(ExitCode::storage, "cannot remove {}: {}", path.string(), error.message());
}

bool try_remove_tree(const Path& path) noexcept {
  try {
    remove_tree(path);
    return true;
  } catch (...) {
    return false;
  }
}

namespace {

/// Shortens the file from its end. Of one with other names these would lose their bytes too.
void shrink_in_steps(const Path& path, std::uint64_t step, const std::function<void()>& between) {
  const FileDescriptor file = open_file(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("access", path);
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1) return;
  for (auto length = static_cast<std::uint64_t>(status.st_size); length > step;) {
    length -= step;
    if (::ftruncate(file.get(), static_cast<off_t>(length)) != 0) fail_errno("shorten", path);
    between();
  }
}

}  // namespace

void remove_tree_in_steps(const Path& path, std::uint64_t step, const std::function<void()>& between) {
  const FileKind kind = kind_of_name(path);
  if (kind == FileKind::folder)
    for (const Path& held : list_folder(path)) remove_tree_in_steps(held, step, between);
  if (kind == FileKind::file) shrink_in_steps(path, step, between);
  if (::remove(path.c_str()) != 0 && errno != ENOENT) fail_errno("remove", path);
  between();
}

Path absolute_path(const Path& path) {
  if (path.empty()) fail(ExitCode::usage, "the name of a file or folder is empty");
  std::error_code error;
  const Path normal = std::filesystem::absolute(path, error).lexically_normal();
  if (error) fail(ExitCode::storage, "cannot resolve the path {}: {}", path.string(), error.message());
  return normal.has_filename() ? normal : normal.parent_path();
}

bool is_same(const Path& a, const Path& b) {
  struct stat first{};
  struct stat second{};
  if (!is_there(a) || !is_there(b)) return false;
  if (::stat(a.c_str(), &first) != 0) fail_errno("access", a);
  if (::stat(b.c_str(), &second) != 0) fail_errno("access", b);
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

void FileDescriptor::close(const Path& path) {
  if (fd_ >= 0 && ::close(release()) != 0) fail_errno("close", path);
}

FileDescriptor open_file(const Path& path, int flags, int mode) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) {
    if ((errno == ENOENT || errno == ENOTDIR) && (flags & O_ACCMODE) == O_RDONLY) fail_no_file(path);
    fail_errno((flags & O_ACCMODE) == O_RDONLY ? "open" : "create", path);
  }
  return FileDescriptor(fd);
}

FileDescriptor open_regular(const Path& path) {
  std::optional<FileDescriptor> file = open_if_there(path);
  if (!file) fail_no_file(path);
  return std::move(*file);
}

namespace {

/// Git LFS leaves a short text in place of a large file that was not fetched, and every reader would take that for
/// damage.
void refuse_lfs_pointer(const FileDescriptor& file, off_t size, const Path& path) {
  constexpr off_t longest = 1024;  // bytes, as the format says
  if (size >= longest) return;
  std::string text(static_cast<std::size_t>(size), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) return;  // whoever reads it is told
  text.resize(static_cast<std::size_t>(got));
  if (!text.starts_with("version https://git-lfs.") || text.find("\noid sha256:") == std::string::npos) return;
  throw Error(ExitCode::input,
              fmt::format("cannot read {}: it is a Git LFS pointer, not the file itself", path.string()),
              fmt::format("fetch the file: git lfs pull, in {}", absolute_path(path).parent_path().string()));
}

}  // namespace

std::optional<FileDescriptor> open_if_there(const Path& path) {
  FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // else a FIFO would wait for its writer
  if (file.get() < 0) {
    if (errno != ENOENT && errno != ENOTDIR) fail_errno("open", path);
    return std::nullopt;
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("read", path);
  refuse_no_file(status.st_mode, path);
  refuse_lfs_pointer(file, status.st_size, path);
  return file;
}

std::optional<std::uint64_t> length_of(const Path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) fail_errno("access", path);
    return std::nullopt;
  }
  refuse_no_file(status.st_mode, path);
  return static_cast<std::uint64_t>(status.st_size);
}

void write_at(const FileDescriptor& file, std::span<const std::byte> bytes, std::uint64_t offset, const Path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno("write", path);
    if (written == 0) fail(ExitCode::storage, "cannot write {}: the system wrote 0 bytes", path.string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void read_at(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset, const Path& path) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path);
    if (got == 0)
      fail(ExitCode::input, "cannot read {}: it ends at byte {}, {} bytes too early", path.string(), offset,
           bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void sync_file(const FileDescriptor& file, const Path& path) {
  if (::fsync(file.get()) != 0) fail_errno("synchronise", path);
}

std::string read_file(const Path& path) {
  const FileDescriptor file = open_regular(path);
  std::string content;
  std::string block(1 << 16, '\0');
  while (true) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path);
    if (got == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(got));
  }
}

void publish_file(const Path& path, std::string_view content) {
  const Path staged = temporary_beside(path);
  try {
    FileDescriptor file = open_file(staged, O_WRONLY | O_CREAT | O_EXCL);
    write_at(file, std::as_bytes(std::span(content)), 0, staged);
    sync_file(file, staged);
    file.close(staged);
    publish_rename(staged, path);
  } catch (...) {
    ::unlink(staged.c_str());
    throw;
  }
}

void make_folder(const Path& path) {
  if (path.empty()) fail(ExitCode::storage, "cannot create a folder whose name is empty");
  std::vector<Path> absent;
  for (Path folder = path.has_filename() ? path : path.parent_path(); !folder.empty() && !is_there(folder);
       folder = folder.parent_path())
    absent.push_back(folder);
  for (auto folder = absent.rbegin(); folder != absent.rend(); ++folder) {
    if (::mkdir(folder->c_str(), 0777) != 0 && errno != EEXIST) fail_errno("create folder", *folder);
    sync_folder(folder->parent_path());
  }
  if (!is_folder(path))
    fail(ExitCode::storage, "cannot create folder {}: it exists and is not a folder", path.string());
}

void sync_folder(const Path& path) {
  const Path folder = path.empty() ? Path(".") : path;
  const FileDescriptor file = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail_errno("synchronise folder", folder);
}

void publish_rename(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(fmt::format("rename {} to", from.string()), to);
  sync_folder(to.parent_path());
}

void durable_rename(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(fmt::format("rename {} to", from.string()), to);
  try {
    sync_folder(to.parent_path());
  } catch (...) {
    ::rename(to.c_str(), from.c_str());
    throw;
  }
}

bool durable_exchange(const Path& from, const Path& to) {
  const auto exchange = [&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0; };
  if (!exchange()) {
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
    fail_errno(fmt::format("exchange {} with", from.string()), to);
  }
  try {
    sync_folder(to.parent_path());
  } catch (...) {
    exchange();
    throw;
  }
  return true;
}

}  // namespace lockstep
