// What a run asks of its programs, in plain values. Who makes programs from it: program/catalogue.hpp.
#pragma once

#include "layout/mesh.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

enum class ProgramPhase { training, evaluation };

/// Which blocks are computed again before their backward: of those that may be, in forward order, the first and every
/// `every`-th after it.
struct RecomputePolicy {
  int every = 0;  // 0: none
  static const RecomputePolicy none, block;
  bool operator==(const RecomputePolicy&) const = default;
};
inline constexpr RecomputePolicy RecomputePolicy::none{0}, RecomputePolicy::block{1};

/// How long the gathered weights of a unit that is cut live: until the last use of the step (ZeRO-1 and 2), or until
/// the next block runs (ZeRO-3).
enum class Reshard { after_step, after_pass };

/// When the gradient of a unit that is cut is scattered: once, after the last micro-batch, or after each.
enum class Scatter { last, each };

struct ShardOptions {
  Reshard reshard = Reshard::after_step;
  Scatter scatter = Scatter::last;
  int prefetch = 1;  // units whose weights are gathered ahead of the one that is used
};

struct UpdateOptions {
  bool clips = true;  // the program has a clip action
  std::int64_t heartbeat_bytes = 0;
};

struct ProgramOptions {
  int micro_batches = 1;       // of each rank in a training step: the accumulation
  int eval_micro_batches = 0;  // of each rank in an evaluation; 0: the run does not evaluate
  RecomputePolicy recompute = RecomputePolicy::none;
  ShardOptions shards;  // of units that are cut
  UpdateOptions update;
  std::int64_t eval_reduction_bytes = 0;
  std::vector<AxisName> data_axes{"dp_replicate", "dp_shard", "ring",
                                  "ulysses"};  // over which tokens differ; those of the mesh count
  std::int64_t memory_limit_bytes = 0;         // a rank's; 0: no limit
};

}  // namespace lockstep
