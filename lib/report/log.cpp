#include "report/log.hpp"

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "report/table.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <mutex>

namespace lockstep {

namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  throw Error(ExitCode::bug, "unknown LogLevel");
}

LogLevel level_of(spdlog::level::level_enum level) {
  if (level == spdlog::level::err) return LogLevel::error;
  if (level == spdlog::level::warn) return LogLevel::warning;
  return level == spdlog::level::debug ? LogLevel::debug : LogLevel::info;
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  throw Error(ExitCode::bug, "unknown LogLevel");
}

constexpr int patience_ms = 1000;  // for a reader that does not read

/// Standard error, of which nobody is sure to read anything: a line that cannot be written, or that a pager which
/// pauses does not take within a second, is lost and holds nobody up.
class Outlet {
 public:
  /// A pipe or terminal is opened once more, so that only this process does not block on it.
  explicit Outlet(int fd) : fd_(fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || (!S_ISFIFO(status.st_mode) && ::isatty(fd) == 0)) return;
    own_ = FileDescriptor(
        ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own_.get() >= 0) fd_ = own_.get();
  }

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EAGAIN && is_taken()) continue;
      if (written <= 0) return;
      blocked_ = false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

 private:
  /// Waits for room, once for each time that the reader stops.
  bool is_taken() {
    pollfd room{fd_, POLLOUT, 0};
    const bool taken = ::poll(&room, 1, blocked_ ? 0 : patience_ms) > 0 && (room.revents & POLLOUT) != 0;
    blocked_ = !taken;
    return taken;
  }

  int fd_;
  FileDescriptor own_;
  bool blocked_ = false;
};

/// Local time with its zone, ISO 8601.
std::string clock_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  const long offset_min = parts.tm_gmtoff / 60;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, offset_min < 0 ? '-' : '+',
                     std::abs(offset_min) / 60, std::abs(offset_min) % 60);
}

/// Writes lines above the status line, one write(2) each, so that lines of several ranks do not mix.
class LineSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  LineSink(std::string program, int fd, bool color, Log::Format format)
      : program_(std::move(program)), outlet_(fd), color_(color), format_(format) {}

  void set_rank(int rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rank_ = rank;
  }

  void set_format(Log::Format format) {
    set_status("");
    const std::lock_guard<std::mutex> lock(mutex_);
    format_ = format;
  }

  Log::Format format() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return format_;
  }

  void set_status(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (text == status_ || format_ == Log::Format::json) return;
    const std::string before = status_.empty() ? "" : "\r\x1b[K";
    status_ = text;
    outlet_.write(before + status_);
  }

  void write_object(LogLevel level, const std::string& text, const Json& fields) {
    const std::lock_guard<std::mutex> lock(mutex_);
    put_object(std::chrono::system_clock::now(), name_of(level), text, fields);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (format_ == Log::Format::json) {
      const std::string text(message.payload.data(), message.payload.size());
      return put_object(message.time, name_of(level_of(message.level)), text, Json::object());
    }
    put_text(message);
  }
  void flush_() override {}

 private:
  void put_object(std::chrono::system_clock::time_point time, std::string_view level, const std::string& text,
                  const Json& fields) {
    Json line = {{"time", clock_text(time)}, {"level", level}, {"program", program_}};
    line["rank"] = rank_ ? Json(*rank_) : Json(nullptr);
    line["message"] = text;
    line.update(fields);
    outlet_.write(to_text(line) + "\n");
  }

  void put_text(const spdlog::details::log_msg& message) {
    const auto paint = [&](const char* code, const std::string& text) {
      return color_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
    };
    std::string level;
    if (message.level == spdlog::level::err) level = paint("1;31", "error:") + " ";
    if (message.level == spdlog::level::warn) level = paint("1;33", "warning:") + " ";
    if (message.level == spdlog::level::debug) level = paint("2", "debug:") + " ";
    std::string text(message.payload.data(), message.payload.size());
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 3))
      text.replace(end, 1, "\n  ");
    const std::string name = rank_ ? fmt::format("{}[{}]", program_, *rank_) : program_;
    const std::string line = fmt::format("{} {}: {}{}\n", paint("2", clock_text(message.time)), name, level, text);
    outlet_.write(status_.empty() ? line : "\r\x1b[K" + line + status_);
  }

  std::string program_;
  std::optional<int> rank_;
  std::string status_;
  Outlet outlet_;
  bool color_;
  Log::Format format_;
};

}  // namespace

struct Log::State {
  std::shared_ptr<LineSink> sink;
  spdlog::logger logger;
  int fd;

  explicit State(const Settings& settings)
      : sink(std::make_shared<LineSink>(settings.program, settings.fd, use_color(settings.color, settings.fd),
                                        settings.format)),
        logger(settings.program, sink),
        fd(settings.fd) {
    logger.set_level(spdlog_level(settings.level));
  }
};

Log::Log(const Settings& settings) : state_(std::make_unique<State>(settings)) {}

Log::~Log() {
  if (state_) state_->sink->set_status("");
}

Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::set_rank(int rank) { state_->sink->set_rank(rank); }

void Log::set_format(Format format) { state_->sink->set_format(format); }
Log::Format Log::format() const { return state_->sink->format(); }

void Log::info_with(const std::string& text, const Json& fields) {
  if (format() == Format::text) return line(LogLevel::info, text);
  if (state_->logger.should_log(spdlog::level::info)) state_->sink->write_object(LogLevel::info, text, fields);
}

void Log::line(LogLevel level, const std::string& text) {
  state_->logger.log(spdlog_level(level), spdlog::string_view_t(text));
}

void Log::failure(const Error& error) {
  line(LogLevel::error, error.hint().empty() ? error.what() : fmt::format("{}\nhint: {}", error.what(), error.hint()));
}

void Log::status(const std::string& text) {
  const auto columns = static_cast<std::size_t>(columns_of(state_->fd));
  std::string shown = text;
  while (width_of(shown) >= columns) shown.pop_back();  // a line that wraps cannot be rewritten in place
  state_->sink->set_status(shown);
}

}  // namespace lockstep
