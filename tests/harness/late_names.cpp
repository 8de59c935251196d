// A network file system that shows new names late, as one that keeps names and attributes for a while does: preloaded
// into a program (LD_PRELOAD), it hides names from one rank. LOCKSTEP_TEST_LATE="RANK SECONDS PATH": what lies at or
// below a name that contains PATH is not there for the rank's opens, stats and listings of folders, for so many seconds
// from its first look at it on. What the process itself made it sees at once, and a file that it asks to be made it
// gets, wherever it sees the folder.
#undef _FILE_OFFSET_BITS  // with it the names of both widths would be one here
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace {

struct Order {
  bool mine = false;
  double seconds = 0;
  std::string path;
};

const Order& order() {
  static const Order read = [] {
    const char* const text = std::getenv("LOCKSTEP_TEST_LATE");
    const char* const own = std::getenv("OMPI_COMM_WORLD_RANK");
    int rank = 0;
    double seconds = 0;
    char path[256] = "";
    if (text == nullptr || std::sscanf(text, "%d %lf %255s", &rank, &seconds, path) != 3)
      std::abort();  // what hides nothing would prove nothing
    return Order{rank == (own == nullptr ? 0 : std::atoi(own)), seconds, path};
  }();
  return read;
}

double now_s() {
  struct timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Never destroyed: other threads may still ask when the process ends.
std::mutex& mutex() {
  static auto* const held = new std::mutex;
  return *held;
}

std::set<std::string>& own() {
  static auto* const paths = new std::set<std::string>;
  return *paths;
}

void made(const std::string& path) {
  if (!order().mine) return;
  const std::lock_guard lock(mutex());
  own().insert(path);
}

bool is_hidden(const std::string& path) {
  if (!order().mine) return false;
  const std::size_t at = path.find(order().path);
  if (at == std::string::npos) return false;
  const std::lock_guard lock(mutex());
  if (own().contains(path)) return false;
  static auto* const first_look_s = new std::map<std::string, double>;
  const std::string name = path.substr(0, path.find('/', at + order().path.size()));
  return now_s() - first_look_s->try_emplace(name, now_s()).first->second < order().seconds;
}

bool hides(const char* path) {
  if (!is_hidden(path)) return false;
  errno = ENOENT;
  return true;
}

std::string path_of(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const int before = errno;
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  errno = before;
  return length < 0 ? std::string() : std::string(path, static_cast<std::size_t>(length));
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

int late_open(const char* name, const char* path, int flags, mode_t mode) {
  const auto real = next<int (*)(const char*, int, ...)>(name);
  const std::string text = path;
  if ((flags & O_CREAT) == 0 ? hides(path) : hides(text.substr(0, text.rfind('/')).c_str())) return -1;
  const int file = real(path, flags, mode);
  if (file >= 0 && (flags & O_CREAT) != 0) made(text);
  return file;
}

template <class Entry>
Entry* late_readdir(const char* name, DIR* folder) {
  const auto real = next<Entry* (*)(DIR*)>(name);
  const std::string path = path_of(::dirfd(folder));
  Entry* entry = real(folder);
  while (entry != nullptr && is_hidden(path + "/" + entry->d_name)) entry = real(folder);
  return entry;
}

template <class Status>
int late_stat(const char* name, const char* path, Status* status) {
  const auto real = next<int (*)(const char*, Status*)>(name);
  return hides(path) ? -1 : real(path, status);
}

mode_t mode_of(int flags, va_list& more) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return late_open("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return late_open("open64", path, flags, mode);
}

int stat(const char* path, struct stat* status) noexcept { return late_stat("stat", path, status); }
int stat64(const char* path, struct stat64* status) noexcept { return late_stat("stat64", path, status); }
int lstat(const char* path, struct stat* status) noexcept { return late_stat("lstat", path, status); }
int lstat64(const char* path, struct stat64* status) noexcept { return late_stat("lstat64", path, status); }

struct dirent* readdir(DIR* folder) { return late_readdir<struct dirent>("readdir", folder); }
struct dirent64* readdir64(DIR* folder) { return late_readdir<struct dirent64>("readdir64", folder); }

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  const int status = real(path, mode);
  if (status == 0) made(path);
  return status;
}

}  // extern "C"
