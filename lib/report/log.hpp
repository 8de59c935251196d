// Log lines on standard error, for people, each with local time and zone, or as JSON, one object a line: what happens,
// warnings, the explanation of a failure. Results go to standard output and records to report/record_sink.hpp. One Log
// per process, made by app and passed down.
#pragma once

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "report/terminal.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

enum class LogLevel { debug, info, warning, error };

class Log {
 public:
  enum class Format { text, json };
  struct Settings {
    std::string program;              // "train": opens each line
    LogLevel level = LogLevel::info;  // lines below it are dropped
    When color = When::automatic;
    int fd = 2;
    Format format = Format::text;
  };
  explicit Log(const Settings& settings);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  /// From now on lines say "train[RANK]"; a job of one rank does not call it. Local.
  void set_rank(int rank);
  /// Of the lines from now on. As JSON nothing is drawn in place. Local.
  void set_format(Format format);
  Format format() const;

  // One line each; Local; safe from any thread.
  template <class... Arguments>
  void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    line(LogLevel::debug, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <class... Arguments>
  void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    line(LogLevel::info, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <class... Arguments>
  void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    line(LogLevel::warning, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <class... Arguments>
  void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    line(LogLevel::error, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  void line(LogLevel level, const std::string& text);
  /// One line, which as JSON has these fields besides.
  void info_with(const std::string& text, const Json& fields);
  /// The explanation of a failure: its message, indented where it has several lines, and its hint.
  void failure(const Error& error);

  /// Draws `text` as the last line of a terminal, in place of the one before; log lines appear above it. Empty: removes
  /// it.
  void status(const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
