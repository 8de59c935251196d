// The state of a run as checkpoint components: model and optimizer replicated, trainer and data position global. Saving
// and loading components: checkpoint/.
#pragma once

#include "base/json_fwd.hpp"
#include "config/train_config.hpp"
#include "model/model.hpp"
#include "store/component.hpp"
#include "train/cell_state.hpp"
#include "train/train_state.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Returns the components of a run. `model`, `train_state` and `cells` must outlive them. State that differs between
/// cells is saved as its average. The export of a checkpoint starts from `hf_config`. After a load the training state
/// is that of the checkpoint; the caller updates the compute copies. Local.
std::vector<Component> components_of(const Model& model, const CellState& cells, TrainState& train_state,
                                     const Json& hf_config);

/// Returns the axes along which ranks hold the same part of every tensor. `weights` are the layouts of all tensors of
/// the model, or of the tensors on one rank. Pure.
std::vector<AxisName> axes_held_alike(const std::vector<Layout>& weights);
std::vector<Layout> layouts_of(const Model& model);  // Local

/// Returns the declaration of a component whose tensors are distributed like the weights. Ranks hold the same along all
/// axes over which no tensor is split or placed. Pure.
Component declared_as_held(const std::vector<Layout>& weights, std::string key);
/// Returns the declaration of a component with values that are equal on all ranks. Pure.
Component global_component(std::string key);

/// Returns the component with the comparison that the options ask for. A global component is always compared
/// completely. Pure.
Component compared_as(const CheckpointOptions& options, Component component);

/// Returns the component with the loss scale of a run in fp16. Local.
Component loss_scale_component(TrainState& train_state);

}  // namespace lockstep
