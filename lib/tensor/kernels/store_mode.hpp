// StoreMode says whether a kernel overwrites its output or adds to it.
#pragma once

namespace lockstep {

enum class StoreMode { overwrite, add };

}  // namespace lockstep
