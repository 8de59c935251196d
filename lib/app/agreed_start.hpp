// Agreement at the start of a job: all ranks have the same plug-ins and the same configuration.
#pragma once

#include "comm/communicator.hpp"
#include "options/settings.hpp"

namespace lockstep {

/// Throws AgreedError(usage) unless all ranks have opened plug-ins with the same content and have the same settings.
/// Settings can differ because paths may use environment variables (options/path_text.hpp). Only checkpoint.local_dir
/// may differ between nodes. Collective over `world`.
void agree_on_start(Communicator& world, const Settings& settings);

}  // namespace lockstep
