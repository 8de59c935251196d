#include "program/program_options.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Neighbouring blocks of a unit lie on one rank; a block that reads a tied weight of it may lie on another.
void check_units(const PipelinePlan& pipeline, const ModelPlan& plan) {
  std::vector<int> holder(plan.blocks.size());  // pipeline rank by block
  const std::vector<PipelinePart> parts = parts_of(pipeline, plan);
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    for (const int block : parts[rank].blocks) holder[static_cast<std::size_t>(block)] = static_cast<int>(rank);
  for (const UnitPlan& unit : plan.units)
    for (std::size_t i = 1; i < unit.blocks.size(); ++i) {
      const int before = holder[static_cast<std::size_t>(unit.blocks[i - 1])];
      const int here = holder[static_cast<std::size_t>(unit.blocks[i])];
      invariant(before == here || unit.blocks[i] != unit.blocks[i - 1] + 1,
                fmt::format("all blocks of unit {} are on one pipeline rank", unit.name));
    }
}

}  // namespace

TrainingStep training_step(const LocalOptions& options, std::int64_t step) {
  if (options.axes.empty() || step < options.start_step) return TrainingStep::summing;
  return (step - options.start_step) % options.period == 0 ? TrainingStep::averaging : TrainingStep::local;
}

std::vector<AxisName> ProgramOptions::axes_apart() const {
  return training_step == TrainingStep::summing ? std::vector<AxisName>{} : local.axes;
}

std::vector<AxisName> ProgramOptions::axes_summed() const {
  std::vector<AxisName> axes = data_axes;
  for (const AxisName& apart : axes_apart()) std::erase(axes, apart);
  return axes;
}

PipelinePlan pipeline_of(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options, ProgramPhase phase) {
  const Axis* axis = find_axis(mesh, pipeline_axis);
  const PipelineOptions& asked = options.pipeline;
  const int forwards = continues_texts(phase) ? 1 : options.eval_micro_batches;
  PipelinePlan made{{asked.schedule, axis == nullptr ? 1 : axis->size, asked.chunks, forwards}, asked.stages, 1};
  if (phase == ProgramPhase::training) {
    if (asked.passes < 1 || options.micro_batches % asked.passes != 0)
      throw Error(ExitCode::usage, fmt::format("cannot run {} in {} through the pipeline: {} mod {} is not 0",
                                               counted(options.micro_batches, "micro-batch"),
                                               counted(asked.passes, "pass"), options.micro_batches, asked.passes));
    made.passes = asked.passes;
    made.pipeline.micro_batches = options.micro_batches / asked.passes;
    check(made.pipeline);
  }
  if (made.stages.empty() && asked.split) made.stages = asked.split(plan, made.pipeline);
  if (made.stages.empty()) made.stages = balanced_stages(costs_of(plan), made.pipeline);
  check_units(made, plan);
  return made;
}

}  // namespace lockstep
