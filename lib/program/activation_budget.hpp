// Chooses the blocks that are recomputed (activation checkpointing), and the activations that each of them keeps, for a
// memory budget per rank. It minimises the work that is repeated; memory is counted as in program/memory_estimate.hpp.
// Pure.
#pragma once

#include "layout/mesh.hpp"
#include "program/model_plan.hpp"
#include "program/program_options.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

/// Memory that the activations of a rank may take.
struct ActivationBudget {
  std::int64_t bytes = 0;  // used if `share` is not set
  // Position between two extremes: 0 is the memory with all blocks recomputed, 1 the memory with none recomputed.
  std::optional<double> share = {};
};

/// Returns a policy to use in place of options.recompute. With it no rank exceeds its `budget` for activations in the
/// training program. Among all such policies it repeats the fewest FLOPs; if a rank has too many blocks to examine all
/// choices, it is close to that. Throws Error(usage), with the arithmetic, if no choice fits.
RecomputePolicy fit_activations(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                                const ActivationBudget& budget);

}  // namespace lockstep
