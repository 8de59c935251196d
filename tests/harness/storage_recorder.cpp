// What a program asks of its storage, written down in order: preloaded into all ranks of a job (LD_PRELOAD), it appends
// each call that changes or synchronises something below a folder to a log. LOCKSTEP_TEST_RECORD="LOG FOLDER". One call
// at a time, over all ranks, so that the order is that of the log. tests/harness/crash_states.py reads it.
//
// A record is a header, one or two paths and the bytes of a write. Calls that fail are left out.
#undef _FILE_OFFSET_BITS  // with it the names of both widths would be one here
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

struct Header {
  char call[8] = "";  // create, write, size, sync, mkdir, rename, swap, link, remove
  std::uint32_t rank = 0, path = 0, other = 0, reserved = 0;  // lengths
  std::uint64_t inode = 0, offset = 0, bytes = 0;             // of a write; of "size" offset is the new length
};

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

struct Recorder {
  int log = -1;
  std::string folder;
  std::uint32_t rank = 0;
  std::recursive_mutex mutex;
  Recorder() {
    const char* const text = std::getenv("LOCKSTEP_TEST_RECORD");
    const char* const own = std::getenv("OMPI_COMM_WORLD_RANK");
    if (own != nullptr) rank = static_cast<std::uint32_t>(std::atoi(own));
    char file[2048], below[2048];
    if (text == nullptr || std::sscanf(text, "%2047s %2047s", file, below) != 2) return;
    folder = below;
    static const auto real = next<int (*)(const char*, int, ...)>("open64");
    log = real(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  }
};

Recorder& recorder() {
  static Recorder* const recorder = new Recorder;
  return *recorder;
}

/// While it lives no other call of any rank is under way.
class Turn {
 public:
  Turn() : lock_(recorder().mutex) { ::flock(recorder().log, LOCK_EX); }
  ~Turn() { ::flock(recorder().log, LOCK_UN); }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

std::string absolute(const char* path) {
  if (path[0] == '/') return path;
  char here[4096];
  return ::getcwd(here, sizeof here) == nullptr ? path : std::string(here) + "/" + path;
}

std::string path_of(int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const int before = errno;
  const ssize_t length = ::readlink(link, path, sizeof path);
  errno = before;
  return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

bool concerns(const std::string& path) {
  const Recorder& own = recorder();
  return own.log >= 0 && path.size() > own.folder.size() && path.starts_with(own.folder) &&
         path[own.folder.size()] == '/';
}

void append(const void* bytes, std::size_t count) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = real(recorder().log, at, count);
    if (done <= 0) std::abort();
    at += done;
    count -= static_cast<std::size_t>(done);
  }
}

struct Call {
  const char* name;
  std::uint64_t inode = 0, offset = 0, bytes = 0;
  std::string path = "", other = "";
  const void* content = nullptr;
};

void record(const Call& call) {
  const int before = errno;
  Header header;
  std::memcpy(header.call, call.name, std::strlen(call.name));
  header.rank = recorder().rank;
  header.path = static_cast<std::uint32_t>(call.path.size());
  header.other = static_cast<std::uint32_t>(call.other.size());
  header.inode = call.inode;
  header.offset = call.offset;
  header.bytes = call.bytes;
  append(&header, sizeof header);
  append(call.path.data(), call.path.size());
  append(call.other.data(), call.other.size());
  if (call.content != nullptr) append(call.content, call.bytes);
  errno = before;
}

std::uint64_t inode_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

std::uint64_t length_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool exists(const char* path) {
  struct stat status{};
  const int before = errno;
  const bool found = ::lstat(path, &status) == 0;
  errno = before;
  return found;
}

ssize_t recorded_pwrite(const char* name, int fd, const void* bytes, size_t count, off_t offset) {
  const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>(name);
  const std::string path = path_of(fd);
  if (!concerns(path)) return real(fd, bytes, count, offset);
  const Turn turn;
  const ssize_t done = real(fd, bytes, count, offset);
  if (done > 0)
    record({.name = "write",
            .inode = inode_of(fd),
            .offset = static_cast<std::uint64_t>(offset),
            .bytes = static_cast<std::uint64_t>(done),
            .path = path,
            .content = bytes});
  return done;
}

int recorded_open(const char* name, const char* path, int flags, mode_t mode) {
  const auto real = next<int (*)(const char*, int, ...)>(name);
  const std::string whole = absolute(path);
  if ((flags & (O_CREAT | O_TRUNC)) == 0 || !concerns(whole)) return real(path, flags, mode);
  const Turn turn;
  const bool fresh = !exists(path);
  const int fd = real(path, flags, mode);
  if (fd < 0) return fd;
  if (fresh) record({.name = "create", .inode = inode_of(fd), .path = whole});
  if (!fresh && (flags & O_TRUNC) != 0) record({.name = "size", .inode = inode_of(fd), .path = whole});
  return fd;
}

int recorded_size(const char* name, int fd, off_t length) {
  const auto real = next<int (*)(int, off_t)>(name);
  const std::string path = path_of(fd);
  if (!concerns(path)) return real(fd, length);
  const Turn turn;
  const int result = real(fd, length);
  if (result == 0)
    record({.name = "size", .inode = inode_of(fd), .offset = static_cast<std::uint64_t>(length), .path = path});
  return result;
}

int recorded_allocate(const char* name, int fd, int mode, off_t offset, off_t length) {
  const auto real = next<int (*)(int, int, off_t, off_t)>(name);
  const std::string path = path_of(fd);
  if (!concerns(path)) return real(fd, mode, offset, length);
  const Turn turn;
  const int result = real(fd, mode, offset, length);
  if (result == 0) record({.name = "size", .inode = inode_of(fd), .offset = length_of(fd), .path = path});
  return result;
}

int recorded_sync(const char* name, int fd) {
  const auto real = next<int (*)(int)>(name);
  const std::string path = path_of(fd);
  const bool root = recorder().log >= 0 && path == recorder().folder;
  if (!root && !concerns(path)) return real(fd);
  const Turn turn;
  const int result = real(fd);
  if (result == 0) record({.name = "sync", .inode = root ? 0 : inode_of(fd), .path = path});
  return result;
}

template <class Work>
int recorded_names(const char* call, const std::string& path, const std::string& other, const Work& work) {
  if (!concerns(path) && !concerns(other)) return work();
  const Turn turn;
  const int result = work();
  if (result == 0) record({.name = call, .path = path, .other = other});
  return result;
}

mode_t mode_of(int flags, va_list& more) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0; }

}  // namespace

extern "C" {

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return recorded_pwrite("pwrite", fd, bytes, count, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off_t offset) {
  return recorded_pwrite("pwrite64", fd, bytes, count, offset);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  const std::string path = recorder().log < 0 ? "" : path_of(fd);
  if (!concerns(path)) return real(fd, bytes, count);
  const Turn turn;
  const bool appends = (::fcntl(fd, F_GETFL) & O_APPEND) != 0;
  const auto offset = appends ? length_of(fd) : static_cast<std::uint64_t>(::lseek(fd, 0, SEEK_CUR));
  const ssize_t done = real(fd, bytes, count);
  if (done > 0)
    record({.name = "write",
            .inode = inode_of(fd),
            .offset = offset,
            .bytes = static_cast<std::uint64_t>(done),
            .path = path,
            .content = bytes});
  return done;
}

int ftruncate(int fd, off_t length) noexcept { return recorded_size("ftruncate", fd, length); }
int ftruncate64(int fd, off_t length) noexcept { return recorded_size("ftruncate64", fd, length); }
int fallocate(int fd, int mode, off_t offset, off_t length) {
  return recorded_allocate("fallocate", fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off_t offset, off_t length) {
  return recorded_allocate("fallocate64", fd, mode, offset, length);
}

int fsync(int fd) { return recorded_sync("fsync", fd); }
int fdatasync(int fd) { return recorded_sync("fdatasync", fd); }

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  const std::string whole = absolute(path);
  if (!concerns(whole)) return real(path, mode);
  const Turn turn;
  const int result = real(path, mode);
  struct stat status{};
  if (result == 0 && ::lstat(path, &status) == 0) record({.name = "mkdir", .inode = status.st_ino, .path = whole});
  return result;
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return recorded_names("rename", absolute(from), absolute(to), [&] { return real(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return recorded_names((flags & RENAME_EXCHANGE) != 0 ? "swap" : "rename", absolute(from), absolute(to),
                        [&] { return real(from_folder, from, to_folder, to, flags); });
}

int link(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("link");
  return recorded_names("link", absolute(from), absolute(to), [&] { return real(from, to); });
}

int unlink(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("unlink");
  return recorded_names("remove", absolute(path), "", [&] { return real(path); });
}
int rmdir(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("rmdir");
  return recorded_names("remove", absolute(path), "", [&] { return real(path); });
}
int remove(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("remove");
  return recorded_names("remove", absolute(path), "", [&] { return real(path); });
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  const std::string whole = folder == AT_FDCWD || path[0] == '/' ? absolute(path) : path_of(folder) + "/" + path;
  return recorded_names("remove", whole, "", [&] { return real(folder, path, flags); });
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return recorded_open("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return recorded_open("open64", path, flags, mode);
}

}  // extern "C"
