// What a tool is given to speak with: results on standard output, log lines on standard error, and how it was called.
#pragma once

#include "base/json_fwd.hpp"
#include "config/settings.hpp"
#include "config/tool.hpp"
#include "report/log.hpp"

#include <string_view>

namespace lockstep {

class Output {
 public:
  /// `log` outlives it. `fd`: where results go.
  Output(CommonOptions common, Settings settings, Log& log, int fd = 1);

  const CommonOptions& common() const { return common_; }  // --dry-run, --json, --progress, …
  const Settings& settings() const { return settings_; }   // the configuration with its provenance
  Log& log() { return log_; }

  /// Results, at once. If the reader has gone away (a closed pipe) the rest is dropped quietly. Local.
  /// Throws Error(storage) if standard output cannot be written.
  void print(std::string_view text);
  /// `value` on several lines, and a newline.
  void print_json(const Json& value);
  /// No result follows. Throws Error(storage) if what was written may be lost. Local.
  void close();

 private:
  CommonOptions common_;
  Settings settings_;
  Log& log_;
  int fd_;
  bool reader_gone_ = false;
};

}  // namespace lockstep
