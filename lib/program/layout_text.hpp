// Which box of each tensor each rank holds, in words: --print-layout. Pure.
#pragma once

#include "layout/layout.hpp"
#include "program/model_plan.hpp"
#include "program/stages.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A stored tensor as the table shows it.
struct TensorLayout {
  std::string name;
  std::string unit;
  Layout layout;  // of its weights, its reduced gradient and its optimizer state, in the type of the weights
};

/// Those of `parameters`, by unit, on the mesh. `parts`: what each rank of the pipeline has; without them all lies on
/// every one.
std::vector<TensorLayout> tensor_layouts(const Mesh& mesh, const ModelPlan& plan,
                                         const std::vector<ParameterPlan>& parameters, const UnitTypes& types,
                                         const std::vector<PipelinePart>& parts = {});

/// What is kept of a tensor and in which types, then a line for each tensor and box: its ranks, those of one box
/// together; of a tensor with many boxes the first and the last. With `rank`, only the boxes that it holds. Throws
/// Error(usage) if the mesh has no such rank.
std::string layout_text(const std::vector<TensorLayout>& tensors, const UnitTypes& types,
                        std::optional<Rank> rank = {});

}  // namespace lockstep
