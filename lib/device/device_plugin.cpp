#include "device/device_plugin.hpp"

#include "base/plugin.hpp"
#include "device/device_build.hpp"

#include <cstdlib>

namespace lockstep {

namespace {

constexpr const char* room_of_plugin = "cuda";  // its folder in a build folder

const void* opened_table() {
  if (const char* const of_tests = std::getenv("LOCKSTEP_TEST_DEVICE"))
    return open_plugin_file(of_tests, DevicePlugin::entry, device_build);
  return open_plugin(room_of_plugin, DevicePlugin::file, DevicePlugin::entry, device_build);
}

}  // namespace

std::vector<std::filesystem::path> device_plugin_places() { return plugin_places(room_of_plugin, DevicePlugin::file); }

std::optional<std::filesystem::path> find_device_plugin() {
  if (const char* const of_tests = std::getenv("LOCKSTEP_TEST_DEVICE")) return of_tests;
  return find_plugin(room_of_plugin, DevicePlugin::file);
}

DevicePlugin* device_plugin() {
  static const auto* const table = static_cast<const DevicePluginTable*>(opened_table());
  return table == nullptr ? nullptr : table->plugin;
}

}  // namespace lockstep
