#include "device/device_plugin.hpp"

#include "base/plugin.hpp"
#include "device/device_build.hpp"

#include <cstdlib>

namespace lockstep {

namespace {

const void* opened_table() {
  if (const char* const of_tests = std::getenv("LOCKSTEP_TEST_DEVICE"))
    return open_plugin_file(of_tests, DevicePlugin::entry, device_build);
  return open_plugin("cuda", DevicePlugin::file, DevicePlugin::entry, device_build);
}

}  // namespace

DevicePlugin* device_plugin() {
  static const auto* const table = static_cast<const DevicePluginTable*>(opened_table());
  return table == nullptr ? nullptr : table->plugin;
}

}  // namespace lockstep
