// Computes the time line of a program under given costs: when each action begins and ends. Pure. A measured time line
// has the same form.
#pragma once

#include "base/json_fwd.hpp"
#include "program/model_plan.hpp"
#include "program/step_program.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

/// Seconds that an action takes once it runs; for a collective, once its last rank has arrived.
using CostOf = std::function<double(const StepProgram&, const Action&)>;

struct Hardware {
  double flops_per_s = 1e12;         // that a rank reaches in blocks
  double memory_bytes_per_s = 1e10;  // for operations that stream over a unit's buffers: norm, optimizer
  double link_bytes_per_s = 1e9;     // that a rank sends
  double latency_s = 1e-5;           // of one message
  double host_bytes_per_s = 2e10;    // between host memory and the device, each way
};

/// Analytic costs: FLOPs of blocks, bytes of unit buffers, and ring collectives: 2·(n − 1) messages of 1/n of the bytes
/// for an all-reduce, n − 1 of them for a reduce-scatter, n − 1 shards for a gathering.
CostOf analytic_costs(const ModelPlan& plan, const Hardware& hardware);

/// FLOPs alone: a block takes as many seconds as it has FLOPs, everything else takes none.
CostOf block_costs(const ModelPlan& plan);

struct Interval {
  int action = 0;  // position in the rank's list
  double begin_s = 0;
  double end_s = 0;
};

struct RankTimeline {
  Rank rank = 0;
  std::vector<Interval> intervals;          // in the order of the list
  std::array<double, lane_count> busy_s{};  // of each lane
  double overlap_s = 0;                     // seconds in which the compute lane and another one are both busy
  std::int64_t peak_bytes = 0;              // of slots on the device; memory ends when the releasing action ends
};

struct Timeline {
  std::vector<RankTimeline> ranks;  // of a simulation: normally one of each class, whose ranks all do the same
  double end_s = 0;                 // of the last action of any rank
};

/// The fraction of the step in which the rank with the least computation computes nothing; 0 for a step that takes no
/// time. With block_costs it is the bubble of a pipeline with free transfers.
double bubble_share(const Timeline& timeline);

/// Runs every action as early as its lane, its waits and the other ranks of its group allow. The program must be
/// verified.
Timeline simulate(const StepProgram& program, const CostOf& cost_of);

/// JSON for chrome://tracing and Perfetto: a process for each rank, a thread for each lane.
Json to_chrome_trace(const StepProgram& program, const Timeline& timeline);

}  // namespace lockstep
