// What plug-ins bring to a step and its samples, as the rooms that use it take it. `index`: of the registry
// (plugin_index of plugin/plugins.hpp). What else they bring: optim/plugin_optimizer.hpp, optim/schedule.hpp,
// train/plugin_callback.hpp.
#pragma once

#include "config/train_config.hpp"
#include "data/packing.hpp"
#include "program/stages.hpp"
#include "tensor/functions/loss.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep {

/// Throws Error(usage) for what is no cut into stages, naming the plug-in.
std::function<Stages(const ModelPlan&, const Pipeline&)> splitter_of_plugin(std::size_t index);

/// It stays for the life of the process.
const CustomSchedule& pipeline_schedule_of_plugin(std::size_t index);

/// Throws Error(usage) for what is no packing, naming the plug-in.
std::shared_ptr<const CustomPacking> packing_of_plugin(std::size_t index);

/// That of a plug-in; nothing for one that is built in. It throws what a rank then fails with.
std::optional<RowLoss> loss_of_user(LossName loss);

}  // namespace lockstep
