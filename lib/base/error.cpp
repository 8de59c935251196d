#include "base/error.hpp"

#include "base/file_size_limit.hpp"
#include "base/no_room.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace lockstep {

std::string_view name_of(ExitCode code) {
  switch (code) {
    case ExitCode::done: return "done";
    case ExitCode::verdict: return "verdict";
    case ExitCode::usage: return "usage";
    case ExitCode::input: return "input";
    case ExitCode::storage: return "storage";
    case ExitCode::resources: return "resources";
    case ExitCode::numerics: return "numerics";
    case ExitCode::communication: return "communication";
    case ExitCode::bug: return "bug";
    case ExitCode::stopped: return "stopped";
  }
  return "unknown";
}

void fail_errno(std::string_view tried, const std::string& path) {
  const int reason = errno;
  const std::string message = fmt::format("cannot {} {}: {}", tried, path, std::strerror(reason));
  if (reason == ENOSPC || reason == EDQUOT) throw NoRoom(message);
  if (reason == EFBIG) throw Error(ExitCode::storage, message + file_size_limit_text());
  struct rlimit open_files{};
  if (reason == EMFILE && ::getrlimit(RLIMIT_NOFILE, &open_files) == 0)
    throw Error(
        ExitCode::storage, message,
        fmt::format("the limit is {} open files per process: raise it with 'ulimit -n' in the shell that starts it",
                    open_files.rlim_cur));
  throw Error(ExitCode::storage, message);
}

}  // namespace lockstep
