// What lies in host memory while nothing uses it, to save that of the device: state of the optimizer, whole shards.
// Copies are actions on lanes of their own; who puts them into a program: offload_units (program/passes.hpp).
#pragma once

#include "program/model_plan.hpp"

#include <cstdint>

namespace lockstep {

struct OffloadOptions {
  bool optimizer = false;             // the optimizer's state of each unit
  bool shards = false;                // all that a rank keeps of units that are cut: weights, reduced gradients, state
  std::int64_t host_limit_bytes = 0;  // of a rank; 0: no limit
};

/// What of a unit lies in host memory.
struct HostPart {
  bool weights = false;   // master and compute copy
  bool gradient = false;  // reduced
  bool state = false;
  bool in_update() const { return weights || state; }
};

/// Of a unit that is updated in backward the gradient lives until then, and never in host memory.
HostPart host_part_of(const UnitPlan& unit, const OffloadOptions& options, bool in_backward);

/// What an update of the unit takes from host memory to that of the device, and what it brings back.
std::int64_t fetched_bytes(const UnitPlan& unit, const HostPart& part);
std::int64_t offloaded_bytes(const UnitPlan& unit, const HostPart& part);

}  // namespace lockstep
