// The processors (cores) that the threads of this process may use, and those of a NUMA node.
#pragma once

#include "base/files.hpp"

#include <vector>

namespace lockstep {

/// Number of processors that this process may use, at least 1. Local.
int usable_processors();

/// Whether the launcher bound this process to fewer processors than its parent may use. Local.
bool is_bound_by_launcher();

/// The processors of a NUMA node; empty if the system does not report them. `root` stands for "/", so that tests can
/// replace the files. Local.
std::vector<int> processors_of_numa_node(int node, const Path& root = "/");

/// Restricts the threads of this process, and threads that they start later, to these processors, as far as they may
/// use them now. If they may use none of these, nothing changes. Local. Throws Error(storage) without /proc.
void use_processors(const std::vector<int>& processors);

}  // namespace lockstep
