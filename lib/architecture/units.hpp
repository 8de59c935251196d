// Grouping of a model's parameters into units. The model's buffers (model/model.hpp) and the plan of its programs
// (engine/make_model_plan.hpp) are both made from it. Pure.
#pragma once

#include "architecture/architecture.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// "embedding", "layer.0", …, "head".
std::string block_name(const BlockDescription& block);

/// Shape and layout of optimizer state for a tensor, from the layout of its weights. Row or column state of a stack of
/// matrices has the shape (matrices, rows) or (matrices, columns).
Shape state_shape(const StateDescription& state, const LogicalTensor& tensor);
Layout state_layout(const StateDescription& state, const Layout& weights, const LogicalTensor& tensor);

/// Returns the units of `architecture`, made by make_units. Their parameters are indices into
/// stored_tensors(architecture).
std::vector<UnitPlan> units_of(const Architecture& architecture, const UnitTypes& types, const Buckets& buckets = {},
                               const Sharding& sharding = {});

}  // namespace lockstep
