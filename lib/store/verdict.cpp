#include "store/verdict.hpp"

namespace lockstep {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::sound: return "sound";
    case Verdict::damaged: return "damaged";
    case Verdict::unreadable: return "unreadable";
    case Verdict::foreign: return "foreign";
  }
  return "unknown";
}

ExitCode code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::damaged: return ExitCode::input;
    case Verdict::unreadable: return ExitCode::storage;
    case Verdict::foreign: return ExitCode::usage;
    case Verdict::sound: break;
  }
  fail(ExitCode::bug, "a sound checkpoint has no error");
}

std::optional<Verdict> verdict_of(ExitCode code) {
  for (const Verdict verdict : {Verdict::damaged, Verdict::unreadable, Verdict::foreign}) {
    if (code_of(verdict) == code) return verdict;
  }
  return std::nullopt;
}

Judgement judgement_of(const Error& error) {
  const auto verdict = verdict_of(error.code());
  if (!verdict) throw error;
  return {*verdict, error.what(), error.hint()};
}

void fail_foreign(const std::string& what, const std::string& software) {
  throw Error(code_of(Verdict::foreign), what,
              fmt::format("{} wrote it: read it with that version or a newer one",
                          software.empty() ? "another program" : software));
}

}  // namespace lockstep
