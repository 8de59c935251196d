// Our own plug-ins: shared objects that link libraries needed by few runs. Only these runs open them.
#pragma once

#include <string>

namespace lockstep {

/// Opens a plug-in and returns the result of its function `entry`: a table of functions that begins with an int, its
/// version. The file is searched in libexec/lockstep beside the folder of the program, and as lib/ROOM/FILE in a build
/// folder. Returns null if it is not found. Local. Throws Error(input) if it cannot be loaded or has another version.
const void* open_plugin(const std::string& room, const std::string& file, const char* entry, int version);
/// Opens the plug-in `path`, which must exist, likewise.
const void* open_plugin_file(const std::string& path, const char* entry, int version);

}  // namespace lockstep
