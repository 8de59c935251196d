#include "app/become.hpp"

#include "base/files.hpp"
#include "comm/launch.hpp"
#include "report/log.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep {

int become(const std::string& program, const Tool& tool, char** arguments) {
  std::error_code unknown;
  const Path folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  int reason = ENOENT;
  for (const Path& place : {folder / program, folder.parent_path() / "libexec/lockstep" / program}) {
    ::execv(place.c_str(), arguments);
    if (errno != ENOENT) reason = errno;
  }
  if (launch_of_process().rank == 0) {
    Log({.program = tool.name})
        .failure(Error(ExitCode::storage,
                       fmt::format("cannot start {} next to {}: {}", program, (folder / tool.name).string(),
                                   std::strerror(reason)),
                       "the two programs belong together: install both"));
  }
  return static_cast<int>(ExitCode::storage);
}

}  // namespace lockstep
