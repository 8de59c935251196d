// Plug-ins of a job: the same on all ranks.
#pragma once

#include "comm/communicator.hpp"

namespace lockstep {

/// Throws AgreedError(usage) unless all ranks have opened plug-ins of the same content. Collective over `world`.
void agree_on_plugins(Communicator& world);

}  // namespace lockstep
