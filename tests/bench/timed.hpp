// What benchmarks of single functions have in common.
#pragma once

#include "base/clock.hpp"
#include "base/json.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>

namespace lockstep::test {

/// Of so many rounds; background work can only add to it.
inline double least_ms(int rounds, const std::function<void()>& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const double start_s = monotonic_seconds();
    work();
    least = std::min(least, (monotonic_seconds() - start_s) * 1e3);
  }
  return least;
}

inline void print(const Json& line) { std::printf("%s\n", to_text(line).c_str()); }

}  // namespace lockstep::test
