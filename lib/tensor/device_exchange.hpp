// The kernels, the memory for packing and the NCCL of the device in use, for exchanges between ranks.
#pragma once

#include "comm/device_operations.hpp"

namespace lockstep {

/// For a transport. The CPU needs nothing. Local.
DeviceExchange exchange_of_device();

}  // namespace lockstep
