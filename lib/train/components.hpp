// The state of a run as checkpoint components: model and optimizer replicated, trainer and data position global.
// How components are saved and loaded: checkpoint/.
#pragma once

#include "base/json_fwd.hpp"
#include "model/model.hpp"
#include "store/component.hpp"
#include "train/cell_state.hpp"
#include "train/train_state.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// `model`, `train_state` and `cells` outlive the components. `state` is what the optimizer
/// declares; what cells have apart is saved as its average. `hf_config` is what the export of a checkpoint starts from.
/// After a load the training state is that of the checkpoint; the caller updates the compute copies. Local.
std::vector<Component> components_of(const Model& model, const std::vector<StateDescription>& state,
                                     const CellState& cells, TrainState& train_state, const Json& hf_config);

/// Axes along which ranks hold the same of every tensor of the model. Local.
std::vector<AxisName> axes_held_alike(const Model& model);

/// The loss scale of a run in fp16. Local.
Component loss_scale_component(TrainState& train_state);

}  // namespace lockstep
