// Continues as another program, with the same arguments, process and standard streams.
#pragma once

#include "options/tool.hpp"

#include <string>

namespace lockstep {

/// Replaces this process by `program`, which is in the folder of this one or, if installed, in libexec/lockstep. On
/// failure it explains the reason on standard error and returns the exit code. Local.
int become(const std::string& program, const Tool& tool, char** arguments);

}  // namespace lockstep
