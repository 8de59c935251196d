#include "base/run_clock.hpp"

#include "base/clock.hpp"

#include <atomic>

namespace lockstep {

namespace {

constexpr double not_driven = -1;
std::atomic<double> driven_s{not_driven};

}  // namespace

double run_seconds() {
  const double driven = driven_s;
  return driven == not_driven ? monotonic_seconds() : driven;
}

void drive_run_clock(double seconds) { driven_s = seconds; }
void release_run_clock() { driven_s = not_driven; }

}  // namespace lockstep
