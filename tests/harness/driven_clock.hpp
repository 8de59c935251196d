// Lets a test drive the clock of a run, so that cadences, limits and watchdogs do not depend on real time.
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
