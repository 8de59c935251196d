// What exchanges between ranks need of the device in use: its kernels, memory for packing, and NCCL if it is in use.
#pragma once

#include "comm/device_operations.hpp"

namespace lockstep {

/// For a transport. The CPU needs nothing. Local.
DeviceExchange exchange_of_device();

}  // namespace lockstep
