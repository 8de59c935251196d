#include "comm/stop.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {

constexpr off_t most_bytes = 256;  // of a control file
constexpr const char* accepted_words = "write one of the words stop, save, abort, evaluate, log, status, save-stop";

bool is_unprintable(char byte) { return byte < ' ' || byte > '~'; }

/// The beginning of a text, fit for a log line.
std::string shown(std::string_view word) {
  std::string text(word.substr(0, 40));
  std::ranges::replace_if(text, is_unprintable, '?');
  return text;
}

}  // namespace

StopChannels::StopChannels(Session& session, Settings settings) : session_(session), settings_(std::move(settings)) {}

StopChannels::Asked StopChannels::poll() {
  Asked asked;
  if (!settings_.control_file.empty() && session_.seconds() >= next_look_s_) {
    next_look_s_ = session_.seconds() + 1;
    asked.problem = read_control_file();
  }
  const auto stop = [&asked](StopLevel level, const std::string& reason) {
    if (level <= asked.stop) return;
    asked.stop = level;
    asked.reason = reason;
  };
  asked.requests = std::exchange(from_file_once_, Request::none);
  asked.status = std::exchange(status_asked_, false);
  asked.change = std::exchange(change_, std::nullopt);
  if (out_of_time()) stop(StopLevel::after_step, "train.max_time");
  stop(from_file_, "the control file");
  stop(session_.stop_level(), session_.stop_reason());
  return asked;
}

void StopChannels::save_took(double seconds) {
  longest_save_s_ = std::max(longest_save_s_, seconds);
  last_poll_s_ = -1;  // the time since the last poll is not that of a step
}

/// What it returns is told to the user once for each file: what cannot be removed is seen again, and left alone.
std::string StopChannels::read_control_file() {
  const char* const path = settings_.control_file.c_str();
  struct stat status{};
  if (::lstat(path, &status) != 0) {
    if (errno == ENOENT) seen_.clear();
    return {};
  }
  const std::string identity = fmt::format("{} {} {} {}.{}", status.st_ino, status.st_mode, status.st_size,
                                           status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  if (identity == seen_) return {};
  const bool regular = S_ISREG(status.st_mode) && status.st_size <= most_bytes;
  if (regular && status.st_size == 0) return {};  // being written
  seen_ = identity;
  if (!regular) return fmt::format("{} is ignored, because it is not a small regular file; {}", path, accepted());
  std::string content(most_bytes, '\0');
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const ssize_t got = file.get() < 0 ? -1 : ::read(file.get(), content.data(), content.size());
  if (got < 0) return fmt::format("cannot read {}: {}", path, std::strerror(errno));
  content.resize(static_cast<std::size_t>(got));
  std::string problem = obey(content);
  if (::unlink(path) != 0 && problem.empty())
    problem = fmt::format("cannot remove {}: {}; its request is carried out once", path, std::strerror(errno));
  return problem;
}

std::string StopChannels::obey(const std::string& content) {
  const std::string word(trim(content));
  if (word == "stop" || word == "save-stop") {
    from_file_ = std::max(from_file_, StopLevel::after_step);
  } else if (word == "abort") {
    from_file_ = StopLevel::now;
  } else if (word == "save") {
    from_file_once_ = from_file_once_ | Request::save;
  } else if (word == "evaluate") {
    from_file_once_ = from_file_once_ | Request::evaluate;
  } else if (word == "log") {
    from_file_once_ = from_file_once_ | Request::log;
  } else if (word == "status") {
    status_asked_ = true;
  } else if (const std::size_t end = word.find(' ');
             end != std::string::npos && std::ranges::none_of(word, is_unprintable) &&
             std::ranges::find(settings_.options, word.substr(0, end)) != settings_.options.end()) {
    change_ = {.option = word.substr(0, end), .value = std::string(trim(std::string_view(word).substr(end)))};
  } else {
    return fmt::format("{} contains '{}', which is not a request; {}", settings_.control_file.string(), shown(word),
                       accepted());
  }
  return {};
}

std::string StopChannels::accepted() const {
  if (settings_.options.empty()) return accepted_words;
  return fmt::format("{}, or one of {} and an interval", accepted_words, join(settings_.options, ", "));
}

bool StopChannels::out_of_time() {
  if (!settings_.max_time_s) return false;
  const double now = session_.seconds();
  if (last_poll_s_ >= 0) longest_step_s_ = std::max(longest_step_s_, now - last_poll_s_);
  last_poll_s_ = now;
  return now + longest_step_s_ + longest_save_s_ > *settings_.max_time_s;
}

}  // namespace lockstep
