// What a measured step of one rank consisted of: seconds by kind of work, from when its actions ran. Pure.
// Who measures: engine/engine.hpp; who reports: train/step_profile.hpp.
#pragma once

#include "program/simulate.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Kinds of work in the order of a step, each with its seconds. All but "reduction" follow each other: forward and
/// backward of blocks without the head, head (both), recompute, gradient (completing it), waiting (for reductions: the
/// part of them that nothing hides), norm, optimizer, heartbeat. "reduction" is what the reduction lane was busy beside
/// them, "copy" what copies from and to host memory took.
using WorkTimes = std::vector<std::pair<std::string_view, double>>;

/// `times` are in the order of the rank's list.
WorkTimes work_times(const StepProgram& program, Rank rank, const std::vector<Interval>& times);

}  // namespace lockstep
