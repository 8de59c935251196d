// Runs of code points that a change of letter case maps alike. Tables of them are sorted; scripts make them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

namespace lockstep {

/// Each `stride`th code point from `first` to `last` maps to the one `distance` away.
struct CaseRun {
  char32_t first;
  char32_t last;
  char32_t stride;
  std::int32_t distance;
};

/// Returns the code point that `point` maps to; `point` itself if no run has it.
inline char32_t changed_point(char32_t point, std::span<const CaseRun> runs) {
  const auto after = std::ranges::upper_bound(runs, point, {}, &CaseRun::first);
  if (after == runs.begin()) return point;
  const CaseRun& run = *std::prev(after);
  if (point > run.last || (point - run.first) % run.stride != 0) return point;
  return static_cast<char32_t>(static_cast<std::int64_t>(point) + run.distance);
}

}  // namespace lockstep
