#include "base/file_lock.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

namespace lockstep {

namespace {

constexpr std::string_view first_word = "process ";  // of every lock: a file that begins otherwise is a stranger's
constexpr double settling_s = 0.3;  // in which two processes that took one stale lease see whose file stands there

std::string content_of_link(const char* path) {
  std::array<char, 256> text{};
  const ssize_t length = ::readlink(path, text.data(), text.size() - 1);
  return length <= 0 ? "" : std::string(text.data(), static_cast<std::size_t>(length));
}

// Processes can be looked up by number where this is equal: one start of one machine, one container.
std::string process_space() {
  try {
    const std::string boot(trim(read_file("/proc/sys/kernel/random/boot_id")));
    const std::string space = content_of_link("/proc/self/ns/pid");
    return space.empty() ? "" : boot + " " + space;
  } catch (const Error&) {
    return {};  // then only time tells that a holder is gone
  }
}

std::string own_text() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {} since {}\n{}\n", ::getpid(), host.data(), utc_now(), process_space());
}

std::string holder_in(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.empty() ? "another process" : line;
}

// Of a holder that ran where this process can look it up.
bool is_dead(const std::string& text) {
  const std::size_t end = text.find('\n');
  const std::string space = process_space();
  if (end == std::string::npos || space.empty() || trim(text.substr(end + 1)) != space) return false;
  pid_t process = 0;
  const char* const number = text.data() + first_word.size();
  const auto [stop, error] = std::from_chars(number, text.data() + end, process);
  return error == std::errc{} && stop != number && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

std::optional<struct stat> look_at(const Path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT) fail_errno("access", path);
  return std::nullopt;
}

struct stat status_of(const FileDescriptor& file, const Path& path) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("access", path);
  return status;
}

bool stands_at(const FileDescriptor& file, const Path& path) {
  const auto there = look_at(path);
  const struct stat own = status_of(file, path);
  return there && there->st_dev == own.st_dev && there->st_ino == own.st_ino;
}

// Nothing if there is no such file. A link is not followed, a FIFO not waited for.
std::optional<FileDescriptor> open_lock(const Path& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    if (errno == ENOENT && (flags & O_CREAT) == 0) return std::nullopt;
    if (errno == EEXIST && (flags & O_EXCL) != 0) return std::nullopt;
    fail_errno("open the lock", path);
  }
  if (!S_ISREG(status_of(file, path).st_mode))
    fail(ExitCode::usage, "{} is not a lock: it is not a regular file", path.string());
  return file;
}

std::string text_in(const FileDescriptor& file, const Path& path) {
  std::array<char, 512> text{};
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) fail_errno("read", path);
  const std::string content(text.data(), static_cast<std::size_t>(got));
  if (!content.empty() && !content.starts_with(first_word))
    throw Error(ExitCode::usage, fmt::format("{} is not a lock: another program wrote it", path.string()),
                "move it away, or choose another name for the output");
  return content;
}

void write_text(const FileDescriptor& file, const Path& path) {
  if (::ftruncate(file.get(), 0) != 0) fail_errno("write", path);
  write_at(file, std::as_bytes(std::span<const char>(own_text())), 0, path);
}

void wait_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

struct Attempt {
  const Path& path;
  const std::string& what;
  const std::string& hint;

  [[noreturn]] void refuse(const std::string& text) const { throw LockHeld(what, holder_in(text), hint); }
};

// Nothing if the file system has no flock.
std::optional<FileDescriptor> lock_file(const Attempt& attempt) {
  while (true) {
    FileDescriptor file = *open_lock(attempt.path, O_RDWR | O_CREAT);
    const std::string text = text_in(file, attempt.path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) attempt.refuse(text);
      if (errno != ENOSYS && errno != ENOLCK && errno != EOPNOTSUPP) fail_errno("lock", attempt.path);
      if (text.empty()) ::unlink(attempt.path.c_str());
      return std::nullopt;
    }
    if (!stands_at(file, attempt.path)) continue;  // its last holder has just removed it
    write_text(file, attempt.path);
    return file;
  }
}

// Whether the lease that stands there may be taken: its holder is known to be gone, or gives no sign of life.
bool is_abandoned(const Path& path, const FileLock::LeaseTimes& times, std::string& text) {
  const auto first = look_at(path);
  const auto file = first ? open_lock(path, O_RDONLY) : std::nullopt;
  if (!file) return false;
  text = text_in(*file, path);
  if (is_dead(text)) return true;
  const double start_s = monotonic_seconds();
  while (monotonic_seconds() - start_s < times.patience_s) {
    wait_s(std::min(0.2, times.patience_s / 10));
    const auto now = look_at(path);
    if (!now) return false;
    const bool alive = now->st_ino != first->st_ino || now->st_mtim.tv_sec != first->st_mtim.tv_sec ||
                       now->st_mtim.tv_nsec != first->st_mtim.tv_nsec;
    if (alive) return false;
  }
  return true;
}

FileDescriptor take_lease(const Attempt& attempt, const FileLock::LeaseTimes& times) {
  while (true) {
    if (auto file = open_lock(attempt.path, O_RDWR | O_CREAT | O_EXCL)) {
      write_text(*file, attempt.path);
      return std::move(*file);
    }
    std::string text;
    const bool abandoned = is_abandoned(attempt.path, times, text);
    if (!abandoned && !look_at(attempt.path)) continue;  // given back
    if (!abandoned) attempt.refuse(text);
    const Path own = attempt.path.string() + "-" + make_uuid();
    FileDescriptor file = open_file(own, O_RDWR | O_CREAT | O_EXCL);
    write_text(file, own);
    publish_rename(own, attempt.path);
    wait_s(settling_s);
    if (stands_at(file, attempt.path)) return file;
  }
}

}  // namespace

struct FileLock::State {
  Path path;
  FileDescriptor file;
  std::mutex mutex;
  std::condition_variable_any ends;
  std::jthread refreshing;  // of a lease; first to be destroyed

  void refresh_every(double seconds) {
    refreshing = std::jthread([this, seconds](const std::stop_token& stop) {
      std::unique_lock lock(mutex);
      while (!ends.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; }) &&
             !stop.stop_requested())
        (void)::futimens(file.get(), nullptr);  // what fails now is tried again, and is_held() tells of the rest
    });
  }
};

FileLock::FileLock(const Path& path, const std::string& what, const std::string& hint, const LeaseTimes& times)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  if (auto file = lock_file({path, what, hint})) {
    state_->file = std::move(*file);
    return;
  }
  state_->path = path.string() + ".lease";
  state_->file = take_lease({state_->path, what, hint}, times);
  state_->refresh_every(times.refresh_s);
}

FileLock::FileLock(FileLock&&) noexcept = default;

FileLock::~FileLock() {
  if (!state_) return;
  try {
    if (is_held()) ::unlink(state_->path.c_str());
  } catch (...) {  // the next process finds that its holder is gone
  }
}

bool FileLock::is_held() const { return stands_at(state_->file, state_->path); }

}  // namespace lockstep
