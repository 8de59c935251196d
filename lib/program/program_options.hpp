// The options of a run that its step programs depend on, in plain values. program/catalogue.hpp makes programs from
// them.
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

/// prompt, token: a pass over texts, of parts of their prompts or of one token each.
enum class ProgramPhase { training, evaluation, prompt, token };
constexpr bool continues_texts(ProgramPhase phase) {
  return phase == ProgramPhase::prompt || phase == ProgramPhase::token;
}

/// The blocks that are recomputed before their backward (activation checkpointing): among the recomputable blocks, in
/// forward order, the first one and every `every`-th after it. Each keeps the activations in `keeps` from its forward.
struct RecomputePolicy {
  int every = 0;  // 0: none
  KeepSet keeps = {};
  // Used instead if not empty. By block: its keep-set; nullopt: it is not recomputed.
  std::vector<std::optional<KeepSet>> blocks = {};
  static const RecomputePolicy none, block;
  bool operator==(const RecomputePolicy&) const = default;
};
inline constexpr RecomputePolicy RecomputePolicy::none{0}, RecomputePolicy::block{1};

/// How gradients accumulate over the micro-batches of a step. whole: each rank adds up its whole gradient and reduces
/// it with the last micro-batch. shards: each micro-batch is reduce-scattered, and shards are summed over replicas with
/// the last one. sums: each micro-batch is summed over all ranks.
enum class Accumulate { whole, shards, sums };

struct ShardOptions {
  // For a sharded unit: whether its gathered weights are freed when another block runs after a forward, or after a
  // backward, of a block of the unit. They are always freed after their last use in a step.
  bool reshard_after_forward = false;
  bool reshard_after_backward = false;
  Accumulate accumulate = Accumulate::whole;
  int prefetch = 1;  // sharded units whose weights are gathered ahead of the unit in use
};

/// The placement of stages along the pipeline axis of the mesh, and the order in which ranks run them.
struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;  // stages per rank
  int passes = 1;  // through the schedule in a step, each with the same number of micro-batches
  Stages stages;   // empty: `split` decides, by default balanced stages
  std::function<Stages(const ModelPlan&, const Pipeline&)> split = {};
};

struct UpdateOptions {
  bool clips = true;  // the program has a clip action
  std::int64_t heartbeat_bytes = 0;
  // Updates each unit as soon as its gradient is complete, not after the heartbeat. Excludes clipping.
  bool in_backward = false;
};

/// Post-local SGD (Lin et al. 2020): from `start_step` on, the ranks along `axes` no longer sum gradients with each
/// other. Ranks with equal coordinates along these axes form a cell. Each cell has its own weights until they are
/// averaged over the cells.
struct LocalOptions {
  std::vector<AxisName> axes;   // empty: all ranks sum gradients in all steps
  std::int64_t start_step = 0;  // the first local step, counted from 0
  std::int64_t period = 1;      // steps from one average to the next; the first average is at start_step
};
/// The work of a training step along these axes: it sums gradients, does nothing, or averages the weights at its end.
enum class TrainingStep { summing, local, averaging };
TrainingStep training_step(const LocalOptions& options, std::int64_t step);

struct ProgramOptions {
  int micro_batches = 1;       // of each rank in a training step (gradient accumulation)
  int eval_micro_batches = 0;  // of each rank in an evaluation; 0: the run does not evaluate
  RecomputePolicy recompute = RecomputePolicy::none;
  PipelineOptions pipeline{};
  ShardOptions shards{};
  UpdateOptions update;
  OffloadOptions offload{};
  std::int64_t eval_reduction_bytes = 0;  // of the reduction at the end of an evaluation
  std::int64_t draw_bytes = 0;            // of the reduction at the end of a pass over texts
  std::vector<AxisName> data_axes{
      "dp_replicate",   "dp_node", "dp_shard", "dp_shard_outer",
      "dp_shard_inner", "ring",    "ulysses"};  // axes over which tokens differ; only those of the mesh count
  std::int64_t memory_limit_bytes = 0;          // of a rank; 0: no limit
  LocalOptions local{};
  bool one_queue = false;                              // ranks issue all communication one at a time
  TrainingStep training_step = TrainingStep::summing;  // kind of training program, if there are several

  /// Axes along which ranks hold weights of their own in a step of this kind.
  std::vector<AxisName> axes_apart() const;
  /// Data axes along which a step of this kind sums gradients.
  std::vector<AxisName> axes_summed() const;
};

/// The pipeline of these options, over the ranks along the pipeline axis of the mesh. Throws Error(usage) if the
/// numbers allow none.
PipelinePlan pipeline_of(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options, ProgramPhase phase);

}  // namespace lockstep
