// The passes that make a step program, in the order in which they are applied. Each takes a program and returns a new
// one; none communicates. program/catalogue.hpp chooses the passes of each program of a run.
#pragma once

#include "program/model_plan.hpp"
#include "program/program_options.hpp"
#include "program/step_program.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Forward and backward of stages, a list for each coordinate of the pipeline axis, in the order of the schedule.
/// Throws Error(usage) if the schedule does not exist for these numbers.
StepProgram schedule_training(const Mesh& mesh, const PipelinePlan& pipeline);
/// Forward only, for an evaluation or a pass over texts.
StepProgram schedule_forward(std::string name, const Mesh& mesh, const PipelinePlan& pipeline);

/// Replaces stages by their blocks (forward in order, backward in reverse) and adds the transfers between stages of
/// different ranks. A receive is posted one pass ahead; a send runs beside the following computation.
StepProgram expand(const StepProgram& program, const ModelPlan& plan, const PipelinePlan& pipeline = {});

/// By block: its keep-set if `policy` recomputes it, nullopt otherwise.
std::vector<std::optional<KeepSet>> recomputed_blocks(const ModelPlan& plan, const RecomputePolicy& policy);
/// By block: its keep-set under this policy. Empty if no block keeps a value.
std::vector<KeepSet> keep_sets(const ModelPlan& plan, const RecomputePolicy& policy);
/// Recomputes these blocks, each right before its backward, except the activations that they keep.
StepProgram recompute(const StepProgram& program, const ModelPlan& plan, const RecomputePolicy& policy);

/// Gathers the weights of each sharded unit before the blocks that read them, `options.prefetch` units ahead. Frees
/// them after the last use of the step or, depending on `options`, as soon as a block runs that does not read them. If
/// a unit has `kept_axes`, freed weights stay sharded along these axes, and later gatherings of the step run over these
/// axes only.
StepProgram gather_weights(const StepProgram& program, const ModelPlan& plan, const ShardOptions& options);

/// Finishes each unit's gradient after its last backward, of the step or of each micro-batch (`options.accumulate`),
/// and sums it over `axes` beside the following computation. A whole unit uses an all-reduce. A sharded unit uses a
/// reduce-scatter over its shard axes and an all-reduce of the shard over the others. At most two gradients of
/// micro-batches that are being reduced live at once. If all axes have size 1, nothing is summed.
StepProgram reduce_gradients(const StepProgram& program, const ModelPlan& plan, const std::vector<AxisName>& axes,
                             const ShardOptions& options);

/// For each unit that lies on two pipeline ranks: after all backwards these exchange their gradients, so that both have
/// the sum.
StepProgram sum_over_stages(const StepProgram& program, const ModelPlan& plan, const std::vector<PipelinePart>& parts);

/// Adds norm, heartbeat, clip and optimizer. The norm of a gradient comes as soon as it is complete or, if ranks reduce
/// it, after all backwards. Each rank computes its share of a norm; for a unit on two stages only the first stage
/// computes it. Then come the heartbeat, clip, and the optimizer of each unit.
/// With options.in_backward, norm and optimizer of a unit come as soon as its gradient is complete or, if ranks reduce
/// it, once the next reduction is under way; the heartbeat ends the list. Norms also come that early if gradients go to
/// host memory. If weights are `apart` and gradients are clipped, the ranks of a cell sum the norm first.
StepProgram update(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options,
                   const OffloadOptions& offload = {});

/// Adds copies of the units that lie in host memory: to the device before a use, and back after a change. A gathering
/// needs the shard; an update needs the values that it reads. While one is used, only the next one is copied. Gradients
/// of shards in host memory go there once their norm is known.
StepProgram offload_units(const StepProgram& program, const ModelPlan& plan, const OffloadOptions& options,
                          const UpdateOptions& update);

/// Moves the activations that blocks save for backward to host memory while the next block is computed, and back while
/// the block right before their use is computed. At most two copies are under way in each direction. Activations that
/// are used again at once stay on the device. The others go to host memory, longest wait first, as far as the host
/// limit allows, less the memory that is used there for the whole run.
StepProgram offload_stashes(const StepProgram& program, const ModelPlan& plan, const OffloadOptions& options,
                            const UpdateOptions& update);

/// Averages the weights of each unit over the axes along which the program has them apart: after the update of the unit
/// and the heartbeat, beside the following updates.
StepProgram average_weights(const StepProgram& program, const ModelPlan& plan);

/// Adds, after all forwards of an evaluation, one sum of the losses over all ranks.
StepProgram reduce_loss(const StepProgram& program, std::int64_t bytes);

/// Adds, after a forward of texts, an action in which one rank draws their next tokens and sends them to all ranks.
StepProgram draw_tokens(const StepProgram& program, std::int64_t bytes);

/// For a program that reads the average of weights that cells hold apart: reserves memory for each rank's own weights,
/// for the whole run.
StepProgram keep_own_weights(const StepProgram& program, const ModelPlan& plan, const LocalOptions& options);

/// Delays transfers, and moves others forward, until each rank can issue all communication one at a time in the order
/// of its list (find_serial_stall of program/verify.hpp), as devices with one queue for it do. All that a rank computes
/// keeps its order, and so do the actions of a lane.
StepProgram issue_one_at_a_time(const StepProgram& program);

/// Assigns memory to every action: slots that are acquired, read, written and released, with bytes. Gradients live for
/// the whole run or, if units are updated in backward, from their first contribution to their update.
StepProgram allocate(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options = {},
                     const OffloadOptions& offload = {});

}  // namespace lockstep
