// The plug-in that brings a device: a shared object with one C function, which answers to the build that it was made
// with. The kernels that it brings: tensor/functions/kernel_table.hpp.
#pragma once

#include "device/device.hpp"
#include "device/device_products.hpp"
#include "device/nccl_table.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

/// How a device computes.
struct DeviceSettings {
  bool tf32 = false;  // products of fp32 matrices may round their factors to TF32, where the device has it
};

class DevicePlugin {
 public:
  static constexpr const char* entry = "lockstep_device";  // const DevicePluginTable* lockstep_device()
  static constexpr const char* file = "lockstep-cuda.so";

  virtual ~DevicePlugin() = default;
  /// The devices of this machine that this process may use, by index. Throws Error(resources) saying why there are
  /// none.
  virtual std::vector<DeviceProperties> devices() = 0;
  /// Opens a device, once. The plug-in stays open as long as the process. It calls `count` with the bytes of each
  /// tensor that takes device memory, negative when they are released; any thread. Throws Error(resources).
  virtual std::unique_ptr<Device> open(int index, const DeviceSettings& settings,
                                       void (*count)(std::int64_t bytes)) = 0;
  /// Its kernels, a KernelTables. `of_cpu` are those of the CPU, with which the device of the tests computes.
  virtual const void* kernels(const void* of_cpu) = 0;
  /// The functions of NCCL; the table lives as long as the process. Throws Error(resources) saying why there are none.
  virtual const NcclTable& nccl() = 0;
  /// The products of the device that is open. The object lives as long as the process.
  virtual DeviceProducts& products() = 0;
};

/// The result of the function of a plug-in. Its first member is compared with that of the program.
struct DevicePluginTable {
  int build = 0;  // identifies the headers that it shares with the program: device/device_build.hpp, which is generated
  DevicePlugin* plugin = nullptr;
};

/// Returns the paths at which the plug-in of this installation is searched, and the one at which it is. It is not
/// opened. Local.
std::vector<std::filesystem::path> device_plugin_places();
std::optional<std::filesystem::path> find_device_plugin();

/// The plug-in of this installation, opened once. If the environment variable LOCKSTEP_TEST_DEVICE is set, it is that
/// file. Null if there is none. Local. Throws Error(input) if it cannot be opened or belongs to another build.
DevicePlugin* device_plugin();

}  // namespace lockstep
