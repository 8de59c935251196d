#include "program/catalogue.hpp"

#include "program/passes.hpp"
#include "program/verify.hpp"

#include <algorithm>

namespace lockstep {

const StepProgram& Catalogue::pick([[maybe_unused]] std::int64_t step, ProgramPhase phase) const {
  return phase == ProgramPhase::training ? train : eval;
}

std::vector<std::vector<AxisName>> groups_of(const Catalogue& programs) {
  std::vector<std::vector<AxisName>> groups;
  for (const StepProgram* program : {&programs.train, &programs.eval})
    for (const RankClass& ranks : program->classes)
      for (const Action& action : ranks.actions)
        if (is_collective(action.op) && std::ranges::find(groups, action.group) == groups.end())
          groups.push_back(action.group);
  return groups;
}

Catalogue make_catalogue(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options) {
  Catalogue catalogue;
  const PipelinePlan pipeline = pipeline_of(mesh, plan, options, ProgramPhase::training);
  StepProgram train = expand(schedule_training(mesh, pipeline), plan, pipeline);
  train = recompute(train, plan, options.recompute);
  train = gather_weights(train, plan, options.shards);
  train = reduce_gradients(train, plan, options.data_axes, options.shards);
  train = update(train, plan, options.update);
  catalogue.train = allocate(train, plan);
  verify(catalogue.train, plan, ProgramPhase::training, options);
  if (options.eval_micro_batches > 0) {
    const PipelinePlan forward = pipeline_of(mesh, plan, options, ProgramPhase::evaluation);
    const StepProgram eval =
        gather_weights(expand(schedule_evaluation(mesh, forward), plan, forward), plan, options.shards);
    catalogue.eval = allocate(reduce_loss(eval, options.eval_reduction_bytes), plan);
    verify(catalogue.eval, plan, ProgramPhase::evaluation, options);
  }
  return catalogue;
}

}  // namespace lockstep
