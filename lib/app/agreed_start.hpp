// What all ranks of a job begin with: the same plug-ins and the same configuration.
#pragma once

#include "comm/communicator.hpp"
#include "config/settings.hpp"

namespace lockstep {

/// Throws AgreedError(usage) unless all ranks have opened plug-ins of the same content and have the same settings,
/// which variables of the environment may set (config/path_text.hpp). checkpoint.local_dir alone may be another one on
/// each node. Collective over `world`.
void agree_on_start(Communicator& world, const Settings& settings);

}  // namespace lockstep
