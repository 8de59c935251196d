#include "comm/local_work.hpp"

#include "base/error.hpp"

namespace lockstep {

namespace {
thread_local int depth = 0;
}

LocalWork::LocalWork() { ++depth; }
LocalWork::~LocalWork() { --depth; }

void LocalWork::forbid_collective(const char* collective) {
  if (depth > 0) fail(ExitCode::bug, "{} called inside LocalWork, which must not communicate", collective);
}

}  // namespace lockstep
