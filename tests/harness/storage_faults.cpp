// Storage that fails on demand: preloaded into a program (LD_PRELOAD), it makes chosen system calls of one rank on
// files of one folder fail. LOCKSTEP_TEST_FAULTS="CALL ERRNO FIRST PERIOD RANK PATH": CALL is pwrite, fsync, rename,
// exchange (renameat2), mkdir, flock, open (for writing), direct (open for direct I/O), allocate (fallocate), remove
// (unlink, rmdir, remove), look (open for reading), pread, stat or lstat, or "change" and "view" for all of those up to
// and behind "remove"; its calls on paths that contain PATH are counted, and number FIRST, FIRST + PERIOD, FIRST + 2
// PERIOD, … fail with ERRNO (PERIOD 0: only FIRST). ERRNO 0 is for pwrite: it takes half of the bytes, as a disk that
// is about to be full does. ERRNO -1: the process stops itself (SIGSTOP) before the call, and then does it; ERRNO -9:
// it is killed before the call; ERRNO -3: it waits before the call until there is a path that matches
// LOCKSTEP_TEST_GATE, a pattern of glob(3), ten minutes at most, and then does it; ERRNO -1000 - N: it waits N
// milliseconds before the call, and then does it; ERRNO -2 is for pwrite: one bit is written the other way round, and
// all is well, says the call. Several such orders are parted by
// ";". The file LOCKSTEP_TEST_CALLS, if it is set, grows by a byte for each call that is counted.
#undef _FILE_OFFSET_BITS  // with it the names of both widths would be one here
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr int lies = -2;
constexpr int awaits_gate = -3;
constexpr int waits = -1000;

struct Order {
  char call[16] = "";
  int error = 0;
  long first = 0;
  long period = 0;
  char path[256] = "";
  long calls = 0;  // so far
};

std::vector<Order> read_orders() {
  std::vector<Order> orders;
  const char* const own = std::getenv("OMPI_COMM_WORLD_RANK");
  for (const char* text = std::getenv("LOCKSTEP_TEST_FAULTS"); text != nullptr;) {
    Order order;
    int rank = 0;
    const bool whole = std::sscanf(text, "%15s %d %ld %ld %d %255[^; ]", order.call, &order.error, &order.first,
                                   &order.period, &rank, order.path) == 6;
    if (!whole) std::abort();  // what fails nothing would prove nothing
    if (rank == (own == nullptr ? 0 : std::atoi(own))) orders.push_back(order);
    text = std::strchr(text, ';');
    if (text != nullptr) ++text;
  }
  return orders;
}

bool is_view(const char* call) {
  for (const char* const view : {"look", "pread", "stat", "lstat"})
    if (std::strcmp(call, view) == 0) return true;
  return false;
}

void await_gate() {
  const char* const pattern = std::getenv("LOCKSTEP_TEST_GATE");
  if (pattern == nullptr) std::abort();
  constexpr int pause_us = 2000, most = 600 * 1000 * 1000 / pause_us;
  for (int i = 0; i < most; ++i) {
    glob_t found{};
    const int code = ::glob(pattern, GLOB_NOSORT, nullptr, &found);
    ::globfree(&found);
    if (code == 0) return;
    ::usleep(pause_us);
  }
  std::abort();
}

void tell_counted() {
  static const char* const path = std::getenv("LOCKSTEP_TEST_CALLS");
  if (path == nullptr) return;
  static const int file =
      static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (::write(file, "", 1) != 1) std::abort();
}

bool due(const char* call, const char* path) {
  static std::vector<Order> orders = read_orders();
  bool fails = false;
  for (Order& order : orders) {
    const char* const kind = is_view(call) ? "view" : "change";
    if ((std::strcmp(order.call, call) != 0 && std::strcmp(order.call, kind) != 0) ||
        std::strstr(path, order.path) == nullptr)
      continue;
    const long number = __atomic_add_fetch(&order.calls, 1, __ATOMIC_RELAXED);
    tell_counted();
    const bool now = number == order.first ||
                     (order.period > 0 && number > order.first && (number - order.first) % order.period == 0);
    if (!now) continue;
    if (order.error <= waits) {
      ::usleep(static_cast<useconds_t>(waits - order.error) * 1000);
      continue;
    }
    if (order.error == awaits_gate) {
      await_gate();
      continue;
    }
    if (order.error < 0 && order.error != lies) {
      std::raise(order.error == -1 ? SIGSTOP : SIGKILL);
      continue;
    }
    errno = order.error;
    fails = true;
  }
  return fails;
}

bool due(const char* call, int fd) {
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const int before = errno;
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  errno = before;
  if (length < 0) return false;
  path[length] = '\0';
  return due(call, path);
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

ssize_t faulty_pwrite(const char* name, int fd, const void* bytes, size_t count, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>(name);
  if (!due("pwrite", fd)) return real(fd, bytes, count, offset);
  if (errno == lies) {
    constexpr size_t page = 4096;  // files open past the page cache take aligned memory alone
    const std::unique_ptr<char, void (*)(void*)> other(
        static_cast<char*>(std::aligned_alloc(page, (count / page + 1) * page)), std::free);
    std::memcpy(other.get(), bytes, count);
    if (count > 0) other.get()[count / 2] = static_cast<char>(other.get()[count / 2] ^ 4);
    return real(fd, other.get(), count, offset);
  }
  if (errno != 0) return -1;
  return real(fd, bytes, count > 1 ? count / 2 : count, offset);
}

int faulty_open(const char* name, const char* path, int flags, mode_t mode) {
  const auto real = next<int (*)(const char*, int, ...)>(name);
  if ((flags & O_DIRECT) != 0 && due("direct", path)) return -1;
  if (due((flags & O_ACCMODE) == O_RDONLY ? "look" : "open", path)) return -1;
  return real(path, flags, mode);
}

ssize_t faulty_pread(const char* name, int fd, void* bytes, size_t count, off_t offset) {
  static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>(name);
  return due("pread", fd) ? -1 : real(fd, bytes, count, offset);
}

mode_t mode_of(int flags, va_list& more) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0; }

}  // namespace

extern "C" {

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return faulty_pwrite("pwrite", fd, bytes, count, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off_t offset) {
  return faulty_pwrite("pwrite64", fd, bytes, count, offset);
}

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  return faulty_pread("pread", fd, bytes, count, offset);
}
ssize_t pread64(int fd, void* bytes, size_t count, off_t offset) {
  return faulty_pread("pread64", fd, bytes, count, offset);
}

int stat(const char* path, struct stat* status) noexcept {
  static const auto real = next<int (*)(const char*, struct stat*)>("stat");
  return due("stat", path) ? -1 : real(path, status);
}
int stat64(const char* path, struct stat64* status) noexcept {
  static const auto real = next<int (*)(const char*, struct stat64*)>("stat64");
  return due("stat", path) ? -1 : real(path, status);
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  return due("fsync", fd) ? -1 : real(fd);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
  static const auto real = next<int (*)(int, int, off_t, off_t)>("fallocate");
  return due("allocate", fd) ? -1 : real(fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off_t offset, off_t length) {
  static const auto real = next<int (*)(int, int, off_t, off_t)>("fallocate64");
  return due("allocate", fd) ? -1 : real(fd, mode, offset, length);
}

int unlink(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("unlink");
  return due("remove", path) ? -1 : real(path);
}
int rmdir(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("rmdir");
  return due("remove", path) ? -1 : real(path);
}
int remove(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("remove");
  return due("remove", path) ? -1 : real(path);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return due("rename", to) ? -1 : real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return due("exchange", to) ? -1 : real(from_folder, from, to_folder, to, flags);
}

int flock(int fd, int operation) noexcept {
  static const auto real = next<int (*)(int, int)>("flock");
  return due("flock", fd) ? -1 : real(fd, operation);
}

int lstat(const char* path, struct stat* status) noexcept {
  static const auto real = next<int (*)(const char*, struct stat*)>("lstat");
  return due("lstat", path) ? -1 : real(path, status);
}

int lstat64(const char* path, struct stat64* status) noexcept {
  static const auto real = next<int (*)(const char*, struct stat64*)>("lstat64");
  return due("lstat", path) ? -1 : real(path, status);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return due("mkdir", path) ? -1 : real(path, mode);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return faulty_open("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return faulty_open("open64", path, flags, mode);
}

}  // extern "C"
