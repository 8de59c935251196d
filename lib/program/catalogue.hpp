// All programs of a run: a pure function of mesh, model and options, made once before the first step. The engine picks
// one a step.
#pragma once

#include "program/model_plan.hpp"
#include "program/program_options.hpp"
#include "program/step_program.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct Catalogue {
  StepProgram train;
  StepProgram eval;  // without actions if the run does not evaluate

  /// The program of `step` in `phase`.
  const StepProgram& pick(std::int64_t step, ProgramPhase phase) const;
};

/// The groups of ranks that the programs communicate in, each once: equal on all ranks.
std::vector<std::vector<AxisName>> groups_of(const Catalogue& programs);

/// Every program is verified over all ranks (program/verify.hpp). Throws Error(usage) for numbers that make no program,
/// Error(resources) if a rank would need more than the memory limit, Error(bug) naming rank, action and reason if a
/// pass made a wrong program.
Catalogue make_catalogue(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options);

}  // namespace lockstep
