// The clock of a run, which its cadences, limits and watchdogs read. It shows monotonic_seconds() of base/clock.hpp
// unless a test drives it. Durations are always measured with monotonic_seconds().
#pragma once

namespace lockstep {

double run_seconds();  // from any thread

/// Sets the clock of this process to `seconds`, where it stands until the next call. Local; from any thread.
void drive_run_clock(double seconds);
/// Lets the clock show the time again. Local; from any thread.
void release_run_clock();

}  // namespace lockstep
