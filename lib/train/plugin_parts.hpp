// Parts of plug-ins for steps and samples, as values that other rooms take. `index` is the number in the registry
// (plugin_index of plugin/plugins.hpp). Other parts: optim/plugin_optimizer.hpp, optim/schedule.hpp,
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

/// Returns the stage splitter. It throws Error(usage), naming the plug-in, if the result is not a valid division into
/// stages.
std::function<Stages(const ModelPlan&, const Pipeline&)> splitter_of_plugin(std::size_t index);

/// Returns the pipeline schedule; it lives as long as the process.
const CustomSchedule& pipeline_schedule_of_plugin(std::size_t index);

/// Returns the packing. Its function `place` throws Error(usage), naming the plug-in, if the plug-in reports a problem.
std::shared_ptr<const CustomPacking> packing_of_plugin(std::size_t index);

/// Returns the loss of a plug-in; nothing for a built-in one. An exception of it is a failure of the rank.
std::optional<RowLoss> plugin_loss(LossName loss);

}  // namespace lockstep
