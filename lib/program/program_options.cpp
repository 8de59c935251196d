#include "program/program_options.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

namespace lockstep {

namespace {

void check_units(const PipelinePlan& pipeline, const ModelPlan& plan) {
  const std::vector<PipelinePart> parts = parts_of(pipeline, plan);
  std::vector<int> holder(plan.units.size(), -1);  // pipeline rank by unit
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    for (const int unit : parts[rank].units) {
      int& first = holder[static_cast<std::size_t>(unit)];
      if (first >= 0)
        throw Error(ExitCode::usage,
                    fmt::format("unit {} has blocks on pipeline ranks {} and {}, but is stored and reduced as one",
                                plan.units[static_cast<std::size_t>(unit)].name, first, rank),
                    "untie the weights, use zbv, whose first and last stage lie on one rank, or leave buckets out");
      first = static_cast<int>(rank);
    }
}

}  // namespace

PipelinePlan pipeline_of(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options, ProgramPhase phase) {
  const Axis* axis = find_axis(mesh, pipeline_axis);
  const PipelineOptions& asked = options.pipeline;
  const int forwards = phase == ProgramPhase::sampling ? 1 : options.eval_micro_batches;
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
  if (made.stages.empty()) made.stages = balanced_stages(costs_of(plan), made.pipeline);
  check_units(made, plan);
  return made;
}

}  // namespace lockstep
