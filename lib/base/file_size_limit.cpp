#include "base/file_size_limit.hpp"

#include <sys/resource.h>

#include <fmt/format.h>

namespace lockstep {

std::string file_size_limit_text() {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(" (ulimit -f: this process may write files of at most {} bytes)", limit.rlim_cur);
}

}  // namespace lockstep
