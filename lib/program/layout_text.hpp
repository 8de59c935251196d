// Describes in words which box of each tensor each rank holds, for --print-layout. Pure.
#pragma once

#include "layout/layout.hpp"
#include "program/model_plan.hpp"
#include "program/stages.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A stored tensor as shown in the table.
struct TensorLayout {
  std::string name;
  std::string unit;
  Layout layout;  // of its weights, reduced gradient and optimizer state; the dtype is that of the weights
};

/// The layouts of `parameters` on the mesh, grouped by unit. `parts`: the units of each pipeline rank; without them
/// every rank holds all units.
std::vector<TensorLayout> tensor_layouts(const Mesh& mesh, const ModelPlan& plan,
                                         const std::vector<ParameterPlan>& parameters, const UnitTypes& types,
                                         const std::vector<PipelinePart>& parts = {});

/// One line on the values that are kept of a tensor and their types, then a line for each tensor and box with the ranks
/// that hold it. If a tensor has many boxes, only the first and the last are listed. With `rank`, only the boxes that
/// it holds. Throws Error(usage) if the mesh has no such rank.
std::string layout_text(const std::vector<TensorLayout>& tensors, const UnitTypes& types,
                        std::optional<Rank> rank = {});

}  // namespace lockstep
