// Splits a measured step of one rank into seconds by kind of work. Pure. engine/engine.hpp measures;
// train/step_profile.hpp reports.
#pragma once

#include "program/simulate.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Kinds of work in the order of a step, each with its seconds. These follow each other: forward and backward of blocks
/// without the head, recompute, head (forward and backward), gradient (completing it), waiting (for other lanes: the
/// part of their work that nothing hides), norm, optimizer, heartbeat. These run beside them on other lanes: reduction,
/// transfer (between pipeline stages) and copy (from and to host memory). "gather" is gathering and freeing weights,
/// "average" the averages of weights; both have parts of either kind.
using WorkTimes = std::vector<std::pair<std::string_view, double>>;

/// `times` is in the order of the rank's list.
WorkTimes work_times(const StepProgram& program, Rank rank, const std::vector<Interval>& times);

}  // namespace lockstep
