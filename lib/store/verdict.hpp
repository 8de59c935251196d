// A verdict says what a look at a checkpoint came to. It is one value for every path that reads checkpoints: whoever
// reads throws an Error with the code of the verdict, and whoever chooses a checkpoint acts on the verdict alone.
#pragma once

#include "base/error.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

enum class Verdict {
  sound,
  damaged,     // its bytes contradict its manifest or their hashes: a run passes over it
  unreadable,  // the storage failed, or does not show all ranks the same: nothing is known, so nothing is touched
  foreign,     // its bytes are as they were written, but this program cannot read them: nothing is touched
};
std::string_view name_of(Verdict verdict);

/// The code of the errors that tell of a verdict: input, storage, usage. Throws Error(bug) for sound.
ExitCode code_of(Verdict verdict);
/// The verdict that an error with this code is where a checkpoint is read; nothing if the error is not about the
/// checkpoint, as a bug or a peer that died.
std::optional<Verdict> verdict_of(ExitCode code);

/// A verdict with its reason.
struct Judgement {
  Verdict verdict = Verdict::sound;
  std::string reason = {};  // one line; empty if sound
  std::string hint = {};
};
/// Returns what an error that a reader threw says of the checkpoint. Throws the error itself if it is not about the
/// checkpoint.
Judgement judgement_of(const Error& error);

/// Throws the error of what was written by a program that knows more, naming in the hint what can read it: `software`
/// is as in Manifest::software.
[[noreturn]] void fail_foreign(const std::string& what, const std::string& software);

}  // namespace lockstep
