// Our own plug-ins: shared objects that link libraries needed by few runs. Only these runs open them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Returns the paths at which a plug-in is searched, in their order: FILE in libexec/lockstep beside the folder of the
/// program, and lib/ROOM/FILE in a build folder. Local.
std::vector<std::filesystem::path> plugin_places(const std::string& room, const std::string& file);
/// Returns the first of these paths that exists. Local.
std::optional<std::filesystem::path> find_plugin(const std::string& room, const std::string& file);

/// Opens the plug-in that find_plugin returns, and returns the result of its function `entry`: a table of functions
/// that begins with an int, its version. Returns null if there is no such file. Local. Throws Error(input) if it cannot
/// be loaded or has another version.
const void* open_plugin(const std::string& room, const std::string& file, const char* entry, int version);
/// Opens the plug-in `path`, which must exist, likewise.
const void* open_plugin_file(const std::string& path, const char* entry, int version);

}  // namespace lockstep
