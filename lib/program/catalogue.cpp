#include "program/catalogue.hpp"

#include "base/error.hpp"
#include "program/passes.hpp"
#include "program/verify.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Training programs of this kind of step.
StepProgram make_training(std::string name, const Mesh& mesh, const ModelPlan& plan, const PipelinePlan& pipeline,
                          const std::vector<PipelinePart>& parts, const ProgramOptions& options) {
  StepProgram program = schedule_training(mesh, pipeline);
  program.name = std::move(name);
  program.apart = options.axes_apart();
  program = recompute(expand(program, plan, pipeline), plan, options.recompute);
  program = gather_weights(program, plan, options.shards);
  program = reduce_gradients(program, plan, options.axes_summed(), options.shards);
  program = sum_over_stages(program, plan, parts);
  program = update(program, plan, options.update, options.offload);
  if (options.training_step == TrainingStep::averaging) program = average_weights(program, plan);
  program = offload_units(program, plan, options.offload, options.update);
  program = offload_stashes(program, plan, options.offload, options.update);
  if (options.one_queue) program = issue_one_at_a_time(program);
  program = allocate(program, plan, options.update, options.offload);
  verify(program, plan, ProgramPhase::training, options);
  return program;
}

/// Without what blocks say to each other in training alone.
ModelPlan untrained(ModelPlan plan) {
  for (BlockPlan& block : plan.blocks)
    std::erase_if(block.exchanges.forward, [](const BlockExchange& exchange) { return exchange.in_training; });
  return plan;
}

}  // namespace

const StepProgram& Catalogue::pick(std::int64_t step, ProgramPhase phase) const {
  switch (phase) {
    case ProgramPhase::training: return of(training_step(local_options, step));
    case ProgramPhase::evaluation: return eval;
    case ProgramPhase::prompt: return prompt;
    case ProgramPhase::token: return token;
  }
  fail(ExitCode::bug, "unknown ProgramPhase {}", static_cast<int>(phase));
}

const StepProgram& Catalogue::of(TrainingStep step) const {
  switch (step) {
    case TrainingStep::summing: return train;
    case TrainingStep::local: return local;
    case TrainingStep::averaging: return averaging;
  }
  fail(ExitCode::bug, "unknown TrainingStep {}", static_cast<int>(step));
}

std::vector<const StepProgram*> Catalogue::all() const {
  std::vector<const StepProgram*> programs{&train, &local, &averaging, &eval, &prompt, &token};
  std::erase_if(programs, [](const StepProgram* program) { return program->classes.empty(); });
  return programs;
}

std::vector<std::vector<AxisName>> groups_of(const Catalogue& programs) {
  std::vector<std::vector<AxisName>> groups;
  const auto add = [&](const std::vector<AxisName>& group) {
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  };
  for (const StepProgram* program : programs.all())
    for (const RankClass& ranks : program->classes)
      for (const Action& action : ranks.actions) {
        for (const BlockExchange& exchange : exchanges_of(*program, action)) add(exchange.axes);
        if (overlaps_compute(action.op) || (meets_others(action) && !exchanges_within(action))) add(action.group);
      }
  return groups;
}

Catalogue make_catalogue(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                         const std::optional<TextPlans>& texts, const std::optional<ModelPlan>& evaluated) {
  Catalogue catalogue;
  if (options.offload.shards && !options.local.axes.empty())
    throw Error(ExitCode::usage,
                "post_local_sgd.start_step cannot average shards that lie in host memory (train.offload): weights are "
                "averaged in device memory",
                "--train.offload optimizer works with averaging");
  const PipelinePlan pipeline = pipeline_of(mesh, plan, options, ProgramPhase::training);
  catalogue.parts = parts_of(pipeline, plan);
  catalogue.local_options = options.local;
  const auto training = [&](std::string name, TrainingStep step) {
    ProgramOptions own = options;
    own.training_step = step;
    return make_training(std::move(name), mesh, plan, pipeline, catalogue.parts, own);
  };
  catalogue.train = training("train", TrainingStep::summing);
  if (!options.local.axes.empty()) {
    catalogue.local = training("local", TrainingStep::local);
    catalogue.averaging = training("average", TrainingStep::averaging);
  }
  const auto forwards = [&](std::string name, const ModelPlan& model, const PipelinePlan& forward) {
    const StepProgram passes = expand(schedule_forward(std::move(name), mesh, forward), model, forward);
    return offload_units(gather_weights(passes, model, options.shards), model, options.offload, options.update);
  };
  const auto finished = [&](StepProgram program, const ModelPlan& model, const ProgramOptions& own) {
    if (options.one_queue) program = issue_one_at_a_time(program);
    return keep_own_weights(allocate(program, model, own.update, own.offload), model, options.local);
  };
  if (options.eval_micro_batches > 0) {
    const ModelPlan model = untrained(evaluated.value_or(plan));
    ProgramOptions own = options;
    if (evaluated) own.pipeline.stages = pipeline.stages;
    const StepProgram eval = forwards("eval", model, pipeline_of(mesh, model, own, ProgramPhase::evaluation));
    catalogue.eval = finished(reduce_loss(eval, own.eval_reduction_bytes), model, own);
    verify(catalogue.eval, model, ProgramPhase::evaluation, own);
  }
  if (texts) {
    ProgramOptions own = options;
    own.pipeline.stages = pipeline.stages;  // blocks lie where training has them, whatever they cost on texts
    const auto pass = [&](std::string name, const ModelPlan& model, ProgramPhase phase) {
      const StepProgram program = forwards(std::move(name), model, pipeline_of(mesh, model, own, phase));
      StepProgram made = finished(draw_tokens(program, own.draw_bytes), model, own);
      verify(made, model, phase, own);
      return made;
    };
    catalogue.prompt = pass("prompt", texts->prompt, ProgramPhase::prompt);
    catalogue.token = pass("token", texts->token, ProgramPhase::token);
  }
  return catalogue;
}

}  // namespace lockstep
