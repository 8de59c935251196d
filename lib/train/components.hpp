// The state of a run as checkpoint components: model and optimizer replicated, trainer and data position global.
// How components are saved and loaded: checkpoint/.
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

/// `model`, `train_state` and `cells` outlive the components. What cells have apart is saved as its average.
/// `hf_config` is what the export of a checkpoint starts from. After a load the training state is that of the
/// checkpoint; the caller updates the compute copies. Local.
std::vector<Component> components_of(const Model& model, const CellState& cells, TrainState& train_state,
                                     const Json& hf_config);

/// Axes along which ranks hold the same of every tensor of the model, whose layouts these are: of all its tensors, or
/// of those that lie on one rank. Pure.
std::vector<AxisName> axes_held_alike(const std::vector<Layout>& weights);
std::vector<Layout> layouts_of(const Model& model);  // Local

/// What is declared of a component whose tensors are held as the weights are: of what is cut over some axes, or lies on
/// some ranks of one, the ranks along the others hold the same. Pure.
Component declared_as_held(const std::vector<Layout>& weights, std::string key);
/// Of values that are equal on all ranks. Pure.
Component global_component(std::string key);

/// The component, of which a save compares as much as is asked for. What is global it compares whole. Pure.
Component compared_as(const CheckpointOptions& options, Component component);

/// The loss scale of a run in fp16. Local.
Component loss_scale_component(TrainState& train_state);

}  // namespace lockstep
