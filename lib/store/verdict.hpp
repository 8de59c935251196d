// A verdict is the result of examining a checkpoint, and all code that reads checkpoints uses it: a reader throws an
// Error with the code of the verdict, and the choice of a checkpoint depends only on verdicts. How verdicts are found:
// store/checkpoint_verify.hpp.
#pragma once

#include "base/error.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

enum class Verdict {
  sound,
  damaged,  // its bytes contradict its manifest or their hashes: a run skips it
  /// The storage failed, or does not show all ranks the same: nothing is known, so nothing is touched.
  unreadable,
  /// Its bytes are as they were written, but this program cannot read them: nothing is touched.
  foreign,
};
std::string_view name_of(Verdict verdict);

/// Returns the code of the errors for a verdict: input, storage, usage. Throws Error(bug) for sound.
ExitCode code_of(Verdict verdict);
/// Returns the verdict that an error with this code means while a checkpoint is read; nothing if the error is not about
/// the checkpoint, such as a bug or a lost peer.
std::optional<Verdict> verdict_of(ExitCode code);

/// A verdict with its reason.
struct Judgement {
  Verdict verdict = Verdict::sound;
  std::string reason = {};  // one line; empty if sound
  std::string hint = {};
};
/// Converts the error of a reader to a judgement of the checkpoint. Throws the error itself if it is not about the
/// checkpoint.
Judgement judgement_of(const Error& error);

/// Throws the error for state of a newer program, with a hint that names a program that can read it. `software` is as
/// in Manifest::software.
[[noreturn]] void fail_foreign(const std::string& what, const std::string& software);

}  // namespace lockstep
