// Log lines on standard error: progress, warnings, and the explanation of a failure. Each line has local time and zone;
// the format is text for people, or JSON with one object a line. Results go to standard output and records to
// report/record_sink.hpp. A process has one Log, which app makes and passes down.
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
    std::string program;              // "train": begins each line
    LogLevel level = LogLevel::info;  // lines below it are dropped
    When color = When::automatic;
    int fd = 2;
    Format format = Format::text;
  };
  explicit Log(const Settings& settings);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  /// From now on lines say "train[RANK]". Not called in a job of one rank. Local.
  void set_rank(int rank);
  /// Sets the format of all following lines. With JSON nothing is drawn in place. Local.
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
  /// One line; in JSON it has these additional fields.
  void info_with(const std::string& text, const Json& fields);
  /// The explanation of a failure: its message, further lines indented, and its hint.
  void failure(const Error& error);

  /// Draws `text` as the last line of a terminal, replacing the former one; log lines appear above it. Empty text
  /// removes it.
  void status(const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
