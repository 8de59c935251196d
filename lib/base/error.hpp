// The one error type of the project and the exit codes that errors map to. How ranks agree on an error:
// comm/together.hpp.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// What a program returns, and the kind of an error. The same for all tools; lockstep-exit-codes(7).
enum class ExitCode : int {
  done = 0,
  verdict = 1,        // a question tool answers "no": checkpoints differ, verification failed
  usage = 2,          // unknown option, contradictory values
  input = 3,          // malformed corpus, checksum mismatch
  storage = 4,        // permission, disk full
  resources = 5,      // not enough memory or ranks for what was asked
  numerics = 6,       // non-finite loss, divergence
  communication = 7,  // a peer died, a deadline passed
  bug = 70,           // a violated invariant of ours
  stopped = 75,       // stopped on request with progress saved: requeue me
};

/// The short name of a code, as status.json and messages show it: "usage", "input", …
std::string_view name_of(ExitCode code);

/// One explanation of one failure: what was tried, where, which limit; `hint` is one line on what to do.
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

/// Throws Error(bug) unless `holds`: for invariants of ours, never for input.
inline void invariant(bool holds, std::string_view what) {
  if (!holds) throw Error(ExitCode::bug, fmt::format("invariant violated: {}", what));
}

/// Throws Error(storage) for the current errno: "cannot <tried> <path>: <reason>".
[[noreturn]] void fail_errno(std::string_view tried, const std::string& path);

}  // namespace lockstep
