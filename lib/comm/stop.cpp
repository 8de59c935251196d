#include "comm/stop.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

StopChannels::StopChannels(Session& session, Settings settings) : session_(session), settings_(std::move(settings)) {}

StopChannels::Asked StopChannels::poll() {
  if (!settings_.control_file.empty() && session_.seconds() >= next_look_s_) {
    next_look_s_ = session_.seconds() + 1;
    read_control_file();
  }
  Asked asked;
  if (std::exchange(save_asked_, false)) asked.requests = Request::save;
  if (out_of_time()) asked = {StopLevel::after_step, asked.requests, "max_time"};
  if (from_file_ > asked.stop) asked = {from_file_, asked.requests, "control file"};
  if (session_.stop_level() > asked.stop) asked = {session_.stop_level(), asked.requests, "signal"};
  return asked;
}

void StopChannels::save_took(double seconds) {
  longest_save_s_ = std::max(longest_save_s_, seconds);
  last_poll_s_ = -1;  // the time since the last poll is not that of a step
}

void StopChannels::read_control_file() {
  const std::string path = settings_.control_file.string();
  std::error_code status;
  if (!std::filesystem::exists(settings_.control_file, status)) return;
  const std::string content = read_file(settings_.control_file);
  const std::string word(trim(content));
  if (word.empty()) return;  // being written
  if (!std::filesystem::remove(settings_.control_file, status)) {
    fail(ExitCode::storage, "cannot remove {} after reading it: {}", path, status.message());
  }
  if (word == "stop") {
    from_file_ = std::max(from_file_, StopLevel::after_step);
  } else if (word == "abort") {
    from_file_ = StopLevel::now;
  } else if (word == "save") {
    save_asked_ = true;
  } else {
    throw Error(ExitCode::usage, fmt::format("{} says '{}'", path, word.substr(0, 40)),
                "write one of the words stop, save, abort");
  }
}

bool StopChannels::out_of_time() {
  if (!settings_.max_time_s) return false;
  const double now = session_.seconds();
  if (last_poll_s_ >= 0) longest_step_s_ = std::max(longest_step_s_, now - last_poll_s_);
  last_poll_s_ = now;
  return now + longest_step_s_ + longest_save_s_ > *settings_.max_time_s;
}

}  // namespace lockstep
