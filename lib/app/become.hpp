// One program that goes on as another, with the same arguments, process and standard streams.
#pragma once

#include "config/tool.hpp"

#include <string>

namespace lockstep {

/// Replaces this process by `program`, which lies beside this one's file or, installed, in libexec/lockstep. Returns
/// only if it cannot, after saying so on standard error: the exit code. Local.
int become(const std::string& program, const Tool& tool, char** arguments);

}  // namespace lockstep
