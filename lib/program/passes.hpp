// The passes that make a step program, in the order in which they are applied. Each takes a program and gives one; none
// communicates. Which passes a run's programs go through: program/catalogue.hpp.
#pragma once

#include "program/model_plan.hpp"
#include "program/program_options.hpp"
#include "program/step_program.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// Forward then backward of the only stage, one micro-batch after the other, on every rank of `mesh`.
StepProgram schedule_training(const Mesh& mesh, int micro_batches);
/// Forward only.
StepProgram schedule_evaluation(const Mesh& mesh, int micro_batches);

/// Replaces the stage by its blocks: forward in order, backward in reverse.
StepProgram expand(const StepProgram& program, const ModelPlan& plan);

/// Recomputes each recomputable block right before its backward.
StepProgram recompute(const StepProgram& program, const ModelPlan& plan, RecomputePolicy policy);

/// Finishes each unit's gradient after its last backward and sums it over `axes` beside what follows. Axes of size 1 in
/// all: nothing to sum.
StepProgram data_parallel(const StepProgram& program, const ModelPlan& plan, const std::vector<AxisName>& axes);

/// The norm of each gradient as soon as it is complete or, where ranks reduce it, after all backwards, each rank its
/// share; then heartbeat, clip, and the optimizer of each unit.
StepProgram update(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options);

/// After all forwards of an evaluation: one sum of losses over all ranks.
StepProgram reduce_loss(const StepProgram& program, std::int64_t bytes);

/// Gives memory to every action: what is acquired, read, written and released, with bytes.
StepProgram allocate(const StepProgram& program, const ModelPlan& plan);

}  // namespace lockstep
