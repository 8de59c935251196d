// The clock of a run: its cadences, limits and watchdogs go by it. It shows what monotonic_seconds() of base/clock.hpp
// does, unless a test drives it; how long things took is measured by that one in any case.
#pragma once

namespace lockstep {

double run_seconds();  // from any thread

/// From now on the clock of this process stands at `seconds` until the next call. Local; from any thread.
void drive_run_clock(double seconds);
/// The clock shows the time again. Local; from any thread.
void release_run_clock();

}  // namespace lockstep
