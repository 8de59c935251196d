// Injection is a failure to bring about, for tests: that all ranks end or none cannot be tested without a rank that
// fails on demand.
#pragma once

#include "comm/phase.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

/// It is written rank=1,phase=forward,step=3,kind=throw. Kinds: throw, exit (without a word), stall, nan, kill, stop
/// (as if asked to); pause, until somebody continues the process; flip, of one bit of the state that a save is about to
/// compare, in phase save.plan alone.
struct Injection {
  enum class Kind { raise, exit, stall, nan, kill, stop, flip, pause } kind = Kind::raise;
  int rank = 0;  // world rank
  Phase phase = Phase::start_up;
  std::int64_t step = -1;  // -1: the first time the phase is entered
  std::int64_t steps = 1;  // that it happens in, once each, one after the other
  int code = 9;            // of kinds exit and throw; throw without a code is a bug (70)
};

/// Throws Error(usage) that lists the accepted words.
Injection parse_injection(const std::string& text);

}  // namespace lockstep
