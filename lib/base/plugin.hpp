// Plug-ins of ours: shared objects that link what few runs need, opened by those alone.
#pragma once

#include <string>

namespace lockstep {

/// What the function `entry` of the plug-in returns: a table of functions that begins with an int, its version. The
/// file is looked for in libexec/lockstep beside the folder of the program, and as lib/ROOM/FILE in a build folder.
/// Null if it is nowhere. Local. Throws Error(input) if it cannot be loaded or has another version.
const void* open_plugin(const std::string& room, const std::string& file, const char* entry, int version);

}  // namespace lockstep
