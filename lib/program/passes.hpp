// The passes that make a step program, in the order in which they are applied. Each takes a program and gives one; none
// communicates. Which passes a run's programs go through: program/catalogue.hpp.
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
/// Throws Error(usage) if the schedule does not exist with these numbers.
StepProgram schedule_training(const Mesh& mesh, const PipelinePlan& pipeline);
/// Forward only: of an evaluation or of a text.
StepProgram schedule_forward(std::string name, const Mesh& mesh, const PipelinePlan& pipeline);

/// Replaces stages by their blocks, forward in order, backward in reverse, and adds the transfers between stages of
/// different ranks: received one pass ahead, sent beside what follows.
StepProgram expand(const StepProgram& program, const ModelPlan& plan, const PipelinePlan& pipeline = {});

/// By block: what it keeps where `policy` recomputes it; nothing where it does not.
std::vector<std::optional<KeepSet>> recomputed_blocks(const ModelPlan& plan, const RecomputePolicy& policy);
/// By block: what a program with this policy keeps; empty: none of its blocks keeps a value.
std::vector<KeepSet> keep_sets(const ModelPlan& plan, const RecomputePolicy& policy);
/// Recomputes these blocks, each right before its backward, but for what they keep.
StepProgram recompute(const StepProgram& program, const ModelPlan& plan, const RecomputePolicy& policy);

/// Gathers the weights of each unit that is cut before the blocks that read them, `options.prefetch` units ahead, and
/// lets them go after the last use of the step or, as `options` say, as soon as a block that does not read them runs.
/// Where a unit has `kept_axes`, ranks along these share them out then, and later gatherings of the step are over
/// these.
StepProgram gather_weights(const StepProgram& program, const ModelPlan& plan, const ShardOptions& options);

/// Finishes each unit's gradient after its last backward, of the step or of each micro-batch as `options.accumulate`
/// says, and sums it over `axes` beside what follows: with an all-reduce or, of a unit that is cut, with a
/// reduce-scatter over its axes and an all-reduce of the shard over the others. Two gradients of micro-batches that are
/// being reduced are the most that live at once. Axes of size 1 in all: nothing to sum.
StepProgram reduce_gradients(const StepProgram& program, const ModelPlan& plan, const std::vector<AxisName>& axes,
                             const ShardOptions& options);

/// Of each unit that lies on two pipeline ranks: after all backwards these tell each other their gradients, so that
/// both have the sum.
StepProgram sum_over_stages(const StepProgram& program, const ModelPlan& plan, const std::vector<PipelinePart>& parts);

/// The norm of each gradient as soon as it is complete or, where ranks reduce it, after all backwards, each rank its
/// share (of a unit on two stages the first one's); then heartbeat, clip, and the optimizer of each unit. In backward
/// norm and optimizer of a unit come as soon as its gradient is complete or, where ranks reduce it, once the next one
/// is under way; the heartbeat ends the list. Gradients that go to host memory have their norm then too.
/// Where weights are `apart` and gradients are clipped, ranks of a cell sum the norm first.
StepProgram update(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options,
                   const OffloadOptions& offload = {});

/// Brings what lies in host memory to the device before it is used, and what was written of it back: shards for each
/// gathering, and for each update what it reads. The next copy is under way while one is used, and not more than that.
/// Gradients of such shards go to host memory once their norm is known.
StepProgram offload_units(const StepProgram& program, const ModelPlan& plan, const OffloadOptions& options,
                          const UpdateOptions& update);

/// Moves what blocks keep for backward to host memory, beside the block that is computed then, and back beside what is
/// computed right before it is read: two are under way in each direction at most. Those that are used again at once
/// stay; of the others as many go as the limit of host memory, less what lies there all run, has room for: those that
/// wait longest first.
StepProgram offload_stashes(const StepProgram& program, const ModelPlan& plan, const OffloadOptions& options,
                            const UpdateOptions& update);

/// Averages the weights of each unit along the axes on which the program has them apart, once it is updated and the
/// heartbeat is past, beside the updates that follow.
StepProgram average_weights(const StepProgram& program, const ModelPlan& plan);

/// After all forwards of an evaluation: one sum of losses over all ranks.
StepProgram reduce_loss(const StepProgram& program, std::int64_t bytes);

/// After the forward of a text: one rank draws its next token and tells all ranks.
StepProgram draw_token(const StepProgram& program, std::int64_t bytes);

/// Of a program that reads the average of what cells have apart: memory, for all of it, of what is this rank's own.
StepProgram keep_own_weights(const StepProgram& program, const ModelPlan& plan, const LocalOptions& options);

/// Gives memory to every action: what is acquired, read, written and released, with bytes. Gradients have it for the
/// whole run or, where units are updated in backward, from their first contribution to their update.
StepProgram allocate(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options = {},
                     const OffloadOptions& offload = {});

}  // namespace lockstep
