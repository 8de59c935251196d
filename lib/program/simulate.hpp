// When everything would happen: the time line of a program under given costs. Pure; a measured time line has the same
// shape.
#pragma once

#include "base/json_fwd.hpp"
#include "program/model_plan.hpp"
#include "program/step_program.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

/// Seconds that an action takes once it runs; of a collective, once its last rank has come.
using CostOf = std::function<double(const StepProgram&, const Action&)>;

struct Hardware {
  double flops_per_s = 1e12;         // that a rank reaches in blocks
  double memory_bytes_per_s = 1e10;  // for what streams over a unit's buffers: norm, optimizer
  double link_bytes_per_s = 1e9;     // that a rank sends
  double latency_s = 1e-5;           // of one message
  double host_bytes_per_s = 2e10;    // between host memory and that of the device, each way
};

/// Analytic costs: FLOPs of blocks, bytes of unit buffers, rings: 2·(n − 1) messages of 1/n of the
/// bytes for an all-reduce, n − 1 of them for a reduce-scatter, n − 1 shards for a gathering.
CostOf analytic_costs(const ModelPlan& plan, const Hardware& hardware);

/// FLOPs alone: blocks take as many seconds as they have, all else takes none.
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
  double overlap_s = 0;                     // the compute lane and another one at once
  std::int64_t peak_bytes = 0;              // slots of the device, memory ended when actions end
};

struct Timeline {
  std::vector<RankTimeline> ranks;  // of a simulation: one of each class, whose ranks all do the same
  double end_s = 0;                 // of the last action of any rank
};

/// The share of the time until the end of the step in which the rank that computes least computes nothing; 0 for a step
/// that takes no time. By block_costs: the bubble of a pipeline whose transfers are free.
double bubble_share(const Timeline& timeline);

/// Every action as early as its lane, its waits and the other ranks of its group allow. The program must be verified.
Timeline simulate(const StepProgram& program, const CostOf& cost_of);

/// For chrome://tracing and Perfetto: a process a rank, a thread a lane.
Json to_chrome_trace(const StepProgram& program, const Timeline& timeline);

}  // namespace lockstep
