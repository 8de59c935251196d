// The clock of a run in the hands of a test: what cadences, limits and watchdogs do then hangs on no time.
#pragma once

#include "base/run_clock.hpp"

namespace lockstep::test {

class DrivenClock {
 public:
  DrivenClock() { drive_run_clock(now_s_); }
  ~DrivenClock() { release_run_clock(); }
  DrivenClock(const DrivenClock&) = delete;
  DrivenClock& operator=(const DrivenClock&) = delete;

  void advance(double seconds) { drive_run_clock(now_s_ += seconds); }

 private:
  double now_s_ = 1000;
};

}  // namespace lockstep::test
