#include "program/catalogue.hpp"

#include "base/error.hpp"
#include "program/passes.hpp"
#include "program/verify.hpp"

#include <algorithm>

namespace lockstep {

const StepProgram& Catalogue::pick([[maybe_unused]] std::int64_t step, ProgramPhase phase) const {
  switch (phase) {
    case ProgramPhase::training: return train;
    case ProgramPhase::evaluation: return eval;
    case ProgramPhase::sampling: return sample;
  }
  throw Error(ExitCode::bug, "a phase without a program");
}

std::vector<const StepProgram*> Catalogue::all() const {
  std::vector<const StepProgram*> programs{&train, &eval, &sample};
  std::erase_if(programs, [](const StepProgram* program) { return program->classes.empty(); });
  return programs;
}

std::vector<std::vector<AxisName>> groups_of(const Catalogue& programs) {
  std::vector<std::vector<AxisName>> groups;
  for (const StepProgram* program : programs.all())
    for (const RankClass& ranks : program->classes)
      for (const Action& action : ranks.actions)
        if ((is_collective(action.op) || is_transfer(action.op)) &&
            std::ranges::find(groups, action.group) == groups.end())
          groups.push_back(action.group);
  return groups;
}

Catalogue make_catalogue(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                         const std::optional<ModelPlan>& text) {
  Catalogue catalogue;
  const PipelinePlan pipeline = pipeline_of(mesh, plan, options, ProgramPhase::training);
  catalogue.parts = parts_of(pipeline, plan);
  StepProgram train = expand(schedule_training(mesh, pipeline), plan, pipeline);
  train = recompute(train, plan, options.recompute);
  train = gather_weights(train, plan, options.shards);
  train = reduce_gradients(train, plan, options.data_axes, options.shards);
  train = sum_over_stages(train, plan, catalogue.parts);
  train = update(train, options.update);
  catalogue.train = allocate(train, plan, options.update);
  verify(catalogue.train, plan, ProgramPhase::training, options);
  const auto forwards = [&](std::string name, const ModelPlan& model, const PipelinePlan& forward) {
    return gather_weights(expand(schedule_forward(std::move(name), mesh, forward), model, forward), model,
                          options.shards);
  };
  if (options.eval_micro_batches > 0) {
    const StepProgram eval = forwards("eval", plan, pipeline_of(mesh, plan, options, ProgramPhase::evaluation));
    catalogue.eval = allocate(reduce_loss(eval, options.eval_reduction_bytes), plan, options.update);
    verify(catalogue.eval, plan, ProgramPhase::evaluation, options);
  }
  if (text) {
    ProgramOptions own = options;
    own.pipeline.stages = pipeline.stages;  // blocks lie where training has them, whatever they cost on a text
    const StepProgram sample = forwards("sample", *text, pipeline_of(mesh, *text, own, ProgramPhase::sampling));
    catalogue.sample = allocate(draw_token(sample, own.eval_reduction_bytes), *text, own.update);
    verify(catalogue.sample, *text, ProgramPhase::sampling, own);
  }
  return catalogue;
}

}  // namespace lockstep
