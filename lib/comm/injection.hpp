// An Injection is a failure that a test causes on a chosen rank, phase and step. Only then can a test check that all
// ranks end, or none.
#pragma once

#include "comm/phase.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

/// Written as rank=1,phase=forward,step=3,kind=throw. Kinds: throw; exit (without a message); stall; nan; kill; stop
/// (as if requested); pause (until somebody continues the process); flip (one bit of the state that a save is about to
/// compare, only in phase save.plan).
struct Injection {
  enum class Kind { raise, exit, stall, nan, kill, stop, flip, pause } kind = Kind::raise;
  int rank = 0;  // world rank
  Phase phase = Phase::start_up;
  std::int64_t step = -1;  // -1: the first time the phase is entered
  std::int64_t steps = 1;  // number of consecutive steps in which it happens, once in each
  int code = 9;            // of kinds exit and throw; throw without a code is a bug (70)
};

/// Throws Error(usage), which lists the accepted words.
Injection parse_injection(const std::string& text);

}  // namespace lockstep
