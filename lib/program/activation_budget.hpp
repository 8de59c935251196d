// Which blocks are recomputed, and what each of them keeps, where activations of a rank have a budget: the least work
// whose memory, as the plan counts it (program/memory_estimate.hpp), stays within it. Pure.
#pragma once

#include "layout/mesh.hpp"
#include "program/model_plan.hpp"
#include "program/program_options.hpp"

#include <cstdint>

namespace lockstep {

/// In place of options.recompute: no rank of the training program has activations of more than `budget_bytes` then, and
/// of all such choices this one has the fewest FLOPs that are computed again, or close to it where a rank has so many
/// blocks that not all choices can be followed up. Throws Error(usage), with the arithmetic, where no choice fits.
RecomputePolicy fit_activations(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                                std::int64_t budget_bytes);

}  // namespace lockstep
