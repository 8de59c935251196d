// The functions of NCCL, found in the process, as the table of device/nccl_table.hpp.
#pragma once

#include "device/nccl_table.hpp"

namespace lockstep::cuda {

/// Throws Error(resources) naming a function that the process has not, or a version that is too old.
const NcclTable& nccl_functions();

}  // namespace lockstep::cuda
