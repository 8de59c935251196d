// Which parameters a model stores together: the one description from which the model's buffers (model/model.hpp) and
// the plan of its programs (engine/make_model_plan.hpp) are made. Pure.
#pragma once

#include "architecture/architecture.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// "embedding", "layer.0", …, "head".
std::string block_name(const BlockDescription& block);

/// What an optimizer keeps beside a tensor: its shape, and who holds it, by the layout of the weights. Of a stack of
/// matrices it is (matrices, rows) or (matrices, columns).
Shape state_shape(const StateDescription& state, const LogicalTensor& tensor);
Layout state_layout(const StateDescription& state, const Layout& weights, const LogicalTensor& tensor);

/// The units of `architecture`, as make_units makes them. Their parameters are indices into
/// stored_tensors(architecture).
std::vector<UnitPlan> units_of(const Architecture& architecture, const UnitTypes& types, const Buckets& buckets = {},
                               const Sharding& sharding = {});

}  // namespace lockstep
