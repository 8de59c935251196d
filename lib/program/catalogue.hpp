// All programs of a run: a pure function of mesh, model and options, made once before the first step. The engine picks
// one a step.
#pragma once

#include "program/model_plan.hpp"
#include "program/program_options.hpp"
#include "program/step_program.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

struct Catalogue {
  StepProgram train;
  StepProgram local;      // of post-local SGD: without classes if the run has none
  StepProgram averaging;  // the same, with an average of the weights behind it
  StepProgram eval;       // without classes if the run does not evaluate
  StepProgram sample;     // one pass over one text, for its next token; without classes if the run samples no text
  std::vector<PipelinePart> parts;  // what each rank along the pipeline axis has, in all of them
  LocalOptions local_options;       // which training program a step has

  const StepProgram& of(TrainingStep step) const;
  /// The program of `step` in `phase`.
  const StepProgram& pick(std::int64_t step, ProgramPhase phase) const;
  /// Those that the run has.
  std::vector<const StepProgram*> all() const;
};

/// The groups of ranks that the programs communicate in, each once: equal on all ranks.
std::vector<std::vector<AxisName>> groups_of(const Catalogue& programs);

/// `text`, if the run samples any, is the model on the longest; `evaluated` on micro-batches of evaluations, where
/// these are others than those of training. Every program is verified over all ranks (program/verify.hpp). Throws
/// Error(usage) for numbers that make no program, Error(resources) if a rank would need more than the memory limit,
/// Error(bug) naming rank, action and reason if a pass made a wrong program.
Catalogue make_catalogue(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                         const std::optional<ModelPlan>& text = {}, const std::optional<ModelPlan>& evaluated = {});

}  // namespace lockstep
