// The output of a tool: results on standard output and log lines on standard error, with the options that affect them.
#pragma once

#include "base/json_fwd.hpp"
#include "options/settings.hpp"
#include "options/tool.hpp"
#include "report/log.hpp"

#include <string_view>

namespace lockstep {

class Output {
 public:
  /// `log` outlives the object. Results go to the file descriptor `fd`.
  Output(CommonOptions common, Settings settings, Log& log, int fd = 1);

  const CommonOptions& common() const { return common_; }  // --dry-run, --json, --progress, …
  const Settings& settings() const { return settings_; }   // the configuration with the origins of its values
  Log& log() { return log_; }

  /// Writes results immediately. If the reader has closed the pipe, the rest is dropped silently. Local. Throws
  /// Error(storage) if standard output cannot be written.
  void print(std::string_view text);
  /// Whether the reader has closed the pipe.
  bool reader_is_gone() const { return reader_gone_; }
  /// Writes `value` on several lines, with a newline at the end.
  void print_json(const Json& value);
  /// Ends the results. Throws Error(storage) if data that was written may be lost. Local.
  void close();

 private:
  CommonOptions common_;
  Settings settings_;
  Log& log_;
  int fd_;
  bool reader_gone_ = false;
};

}  // namespace lockstep
