// What lies in host memory while nothing uses it, to save that of the device: state of the optimizer, whole shards,
// activations. Copies are actions on lanes of their own; who puts them into a program: offload_units, offload_stashes
// (program/passes.hpp).
#pragma once

#include "program/action.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct OffloadOptions {
  bool optimizer = false;             // the optimizer's state of each unit
  bool shards = false;                // all that a rank keeps of units that are cut: weights, reduced gradients, state
  bool activations = false;           // what blocks keep between forward and backward
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

/// What a block keeps of a micro-batch, and for how long: places among all that the rank computes of blocks.
struct StashLife {
  Subject block;
  MicroBatch micro_batch = no_micro_batch;
  int made = 0, used = 0;
  std::int64_t bytes = 0;

  /// Something is computed while it goes, while it is away and while it comes.
  bool worth_moving() const { return bytes > 0 && used - made > 3; }
};
/// In the order in which they are used.
std::vector<StashLife> stash_lives(const std::vector<Action>& actions, const ModelPlan& plan);

}  // namespace lockstep
