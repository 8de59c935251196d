// Offloading to host memory: optimizer state, whole shards, and activations stay in host memory while nothing uses
// them. Copies are actions on lanes of their own. The passes offload_units and offload_stashes (program/passes.hpp) add
// them.
#pragma once

#include "program/action.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct OffloadOptions {
  bool optimizer = false;  // the optimizer state of each unit
  // Everything that a rank keeps of sharded units: weights, reduced gradients, state.
  bool shards = false;
  bool activations = false;           // the activations that blocks save for backward
  std::int64_t host_limit_bytes = 0;  // of a rank; 0: no limit
};

/// The parts of a unit that lie in host memory.
struct HostPart {
  bool weights = false;   // master and compute copy
  bool gradient = false;  // reduced
  bool state = false;
  bool in_update() const { return weights || state; }
};

/// The host part of a unit. With `in_backward` (the unit is updated in backward) its gradient lives only until the
/// update, and never in host memory.
HostPart host_part_of(const UnitPlan& unit, const OffloadOptions& options, bool in_backward);

/// Bytes that an update of the unit copies from host memory to the device, and bytes that it copies back.
std::int64_t fetched_bytes(const UnitPlan& unit, const HostPart& part);
std::int64_t offloaded_bytes(const UnitPlan& unit, const HostPart& part);

/// The lifetime of a block's stash of one micro-batch: `made` and `used` count the rank's computations of blocks.
struct StashLife {
  Subject block;
  MicroBatch micro_batch = no_micro_batch;
  int made = 0, used = 0;
  std::int64_t bytes = 0;

  /// True if something is computed while the stash is copied out, while it is away and while it is copied back.
  bool worth_moving() const { return bytes > 0 && used - made > 3; }
};
/// The lifetimes of all stashes, in the order in which they are used.
std::vector<StashLife> stash_lives(const std::vector<Action>& actions, const ModelPlan& plan);

}  // namespace lockstep
