// The error type of the project and the exit codes that errors map to. Agreement of ranks on an error:
// comm/together.hpp.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// ExitCode is the exit code of a program and the kind of an error. It is common to all tools: lockstep-exit-codes(7).
enum class ExitCode : int {
  done = 0,
  verdict = 1,        // a question tool answers "no": checkpoints differ, verification failed
  usage = 2,          // unknown option, contradictory values
  input = 3,          // malformed corpus, checksum mismatch
  storage = 4,        // permission, disk full
  resources = 5,      // not enough memory or ranks for the request
  numerics = 6,       // non-finite loss, divergence
  communication = 7,  // a peer died, a deadline passed
  bug = 70,           // a violated invariant in our code
  stopped = 75,       // stopped on request with progress saved: requeue me
};

/// Returns the short name of a code, as in status.json and messages: "usage", "input", …
std::string_view name_of(ExitCode code);

/// Error explains one failure: the action, the place, and the limit. `hint` is one line with a remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message, std::string hint = {})
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}
  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

/// Throws Error(code) with a formatted message.
template <class... Arguments>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Error(code, fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Throws Error(bug) unless `holds`. For invariants of our code, never for input.
inline void invariant(bool holds, std::string_view what) {
  if (!holds) throw Error(ExitCode::bug, fmt::format("invariant violated: {}", what));
}

/// Throws Error(storage) for the current errno: "cannot <tried> <path>: <reason>".
[[noreturn]] void fail_errno(std::string_view tried, const std::string& path);

}  // namespace lockstep
