// Clocks for records and deadlines. The clock of a run, which a test can drive: base/run_clock.hpp.
#pragma once

#include <string>

namespace lockstep {

double monotonic_seconds();  // since an arbitrary start; never goes back
double unix_seconds();       // of the wall clock, since 1970
std::string utc_now();       // "2026-01-31T12:00:00.123Z"

}  // namespace lockstep
