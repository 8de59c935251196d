// All programs of a run: a pure function of mesh, model and options, made once before the first step. The engine picks one a step.
#pragma once

#include "program/model_plan.hpp"
#include "program/passes.hpp"
#include "program/step_program.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct ProgramOptions {
  int micro_batches = 1;                   // of each rank in a training step: the accumulation
  int eval_micro_batches = 0;              // of each rank in an evaluation; 0: the run does not evaluate
  RecomputePolicy recompute = RecomputePolicy::none;
  UpdateOptions update;
  std::int64_t eval_reduction_bytes = 0;
  std::vector<AxisName> data_axes{"dp_replicate", "dp_shard", "ring", "ulysses"};   // over which tokens differ; those of the mesh count
  std::int64_t memory_limit_bytes = 0;     // a rank's; 0: no limit
};

enum class ProgramPhase { training, evaluation };

struct Catalogue {
  StepProgram train;
  StepProgram eval;                        // without actions if the run does not evaluate

  /// The program of `step` in `phase`.
  const StepProgram& pick(std::int64_t step, ProgramPhase phase) const;
};

/// Every program is verified over all ranks (program/verify.hpp). Throws Error(usage) for numbers that make no program, Error(resources)
/// if a rank would need more than the memory limit, Error(bug) naming rank, action and reason if a pass made a wrong program.
Catalogue make_catalogue(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options);

}  // namespace lockstep
