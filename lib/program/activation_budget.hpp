// Which blocks are recomputed, and what each of them keeps, where activations of a rank have a budget: the least work
// whose memory, as the plan counts it (program/memory_estimate.hpp), stays within it. Pure.
#pragma once

#include "layout/mesh.hpp"
#include "program/model_plan.hpp"
#include "program/program_options.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

/// How much memory activations of a rank may take.
struct ActivationBudget {
  std::int64_t bytes = 0;            // if there is no share
  std::optional<double> share = {};  // 0: what they take where all blocks are recomputed; 1: where none is; or between
};

/// In place of options.recompute: no rank of the training program has activations beyond its `budget` then, and
/// of all such choices this one has the fewest FLOPs that are computed again, or close to it where a rank has so many
/// blocks that not all choices can be followed up. Throws Error(usage), with the arithmetic, where no choice fits.
RecomputePolicy fit_activations(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                                const ActivationBudget& budget);

}  // namespace lockstep
