// What a run asks of its programs, in plain values. Who makes programs from it: program/catalogue.hpp.
#pragma once

#include "layout/mesh.hpp"
#include "program/keep_set.hpp"
#include "program/offload.hpp"
#include "program/stages.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep {

enum class ProgramPhase { training, evaluation, sampling };

/// Which blocks are computed again before their backward: of those that may be, in forward order, the first and every
/// `every`-th after it; and what each of these keeps from its forward.
struct RecomputePolicy {
  int every = 0;  // 0: none
  KeepSet keeps = {};
  std::vector<std::optional<KeepSet>> blocks = {};  // instead, by block: what it keeps; nothing: it is not recomputed
  static const RecomputePolicy none, block;
  bool operator==(const RecomputePolicy&) const = default;
};
inline constexpr RecomputePolicy RecomputePolicy::none{0}, RecomputePolicy::block{1};

/// What adds up over the micro-batches of a step: the whole gradient of each rank, reduced with the last; shards,
/// scattered after each micro-batch and summed over replicas with the last; or sums over all ranks, after each.
enum class Accumulate { whole, shards, sums };

struct ShardOptions {
  // Of a unit that is cut: whether its gathered weights are let go when another block runs, after a forward or after a
  // backward of its own. They are after the last use of a step.
  bool reshard_after_forward = false;
  bool reshard_after_backward = false;
  Accumulate accumulate = Accumulate::whole;
  int prefetch = 1;  // units that are cut whose weights are gathered ahead of the one that is used
};

/// How stages lie along the pipeline axis of the mesh, and in which order its ranks run them.
struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;  // stages a rank
  int passes = 1;  // through the schedule in a step, each with as many of its micro-batches
  Stages stages;   // empty: as `split` says, or balanced
  std::function<Stages(const ModelPlan&, const Pipeline&)> split = {};
};

struct UpdateOptions {
  bool clips = true;  // the program has a clip action
  std::int64_t heartbeat_bytes = 0;
  bool in_backward = false;  // each unit as soon as its gradient is complete, not after the heartbeat; without clipping
};

/// Post-local SGD (Lin et al. 2020): from a step on the ranks along some axes sum no gradients with each other any
/// more. Ranks that are equal along these are a cell, whose weights are its own until they are averaged over the cells.
struct LocalOptions {
  std::vector<AxisName> axes;   // empty: all ranks sum gradients in all steps
  std::int64_t start_step = 0;  // the first local step, counted from 0
  std::int64_t period = 1;      // steps from an average to the next; the first is that of start_step
};
/// What a training step does along those axes: sums gradients, nothing, or nothing until weights are averaged.
enum class TrainingStep { summing, local, averaging };
TrainingStep training_step(const LocalOptions& options, std::int64_t step);

struct ProgramOptions {
  int micro_batches = 1;       // of each rank in a training step: the accumulation
  int eval_micro_batches = 0;  // of each rank in an evaluation; 0: the run does not evaluate
  RecomputePolicy recompute = RecomputePolicy::none;
  PipelineOptions pipeline{};
  ShardOptions shards{};
  UpdateOptions update;
  OffloadOptions offload{};
  std::int64_t eval_reduction_bytes = 0;  // of what ends an evaluation, or a pass over a text
  std::vector<AxisName> data_axes{
      "dp_replicate",   "dp_node", "dp_shard", "dp_shard_outer",
      "dp_shard_inner", "ring",    "ulysses"};  // over which tokens differ; those of the mesh count
  std::int64_t memory_limit_bytes = 0;          // a rank's; 0: no limit
  LocalOptions local{};
  TrainingStep training_step = TrainingStep::summing;  // of a training program, where there are several

  /// Axes along which ranks hold weights of their own in such a training step.
  std::vector<AxisName> axes_apart() const;
  /// Data axes along which it sums gradients.
  std::vector<AxisName> axes_summed() const;
};

/// The pipeline that these options ask for: its ranks are those along the pipeline axis of the mesh.
/// Throws Error(usage) if there is none with these numbers.
PipelinePlan pipeline_of(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options, ProgramPhase phase);

}  // namespace lockstep
