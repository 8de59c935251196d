// A Catalogue holds all step programs of a run. It is a pure function of mesh, model and options, made once before the
// first step. The engine picks one program for each step. The passes that make a program: program/passes.hpp.
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
  StepProgram local;      // local steps of post-local SGD; without classes if the run has none
  StepProgram averaging;  // a local step followed by an average of the weights; without classes if the run has none
  StepProgram eval;       // without classes if the run does not evaluate
  // A pass over texts: of parts of their prompts, or of one token each. Without classes if the run continues no text.
  StepProgram prompt, token;
  std::vector<PipelinePart> parts;  // blocks and units of each rank along the pipeline axis, in all programs
  LocalOptions local_options;       // decides which training program a step uses

  const StepProgram& of(TrainingStep step) const;
  /// The program of `step` in `phase`.
  const StepProgram& pick(std::int64_t step, ProgramPhase phase) const;
  /// The programs that the run has.
  std::vector<const StepProgram*> all() const;
};

/// The groups of ranks in which the programs communicate, each once. Equal on all ranks.
std::vector<std::vector<AxisName>> groups_of(const Catalogue& programs);

/// The plans of a model that continues texts, for its two programs. Their caches are the same.
struct TextPlans {
  ModelPlan prompt, token;
};

/// Makes and verifies (program/verify.hpp) all programs of a run, over all ranks. `texts` is set if the run continues
/// texts. `evaluated` is the plan for the micro-batches of evaluations, if these
/// differ from those of training. Throws Error(usage) if the numbers allow no program, Error(resources) if a rank would
/// exceed the memory limit, and Error(bug) naming rank, action and reason if a pass made a wrong program.
Catalogue make_catalogue(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                         const std::optional<TextPlans>& texts = {}, const std::optional<ModelPlan>& evaluated = {});

}  // namespace lockstep
