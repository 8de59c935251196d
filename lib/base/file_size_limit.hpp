// The limit on the size of files that this process may write (RLIMIT_FSIZE).
#pragma once

#include <string>

namespace lockstep {

/// Returns the limit in parentheses, to follow the reason of a write that failed with EFBIG: " (ulimit -f: …)". It is
/// empty if there is no limit. Local.
std::string file_size_limit_text();

}  // namespace lockstep
