// The main of a benchmark with the arguments FOLDER ROUNDS.
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace lockstep::bench {

/// Measures, and returns the exit code. `tells`: this process prints errors.
inline int measured(const char* name, int argc, char** argv,
                    const std::function<void(const Path& folder, int rounds)>& measure, bool tells = true) {
  if (argc != 3) {
    if (tells) std::fprintf(stderr, "usage: %s FOLDER ROUNDS\n", name);
    return static_cast<int>(ExitCode::usage);
  }
  try {
    measure(argv[1], std::max(1, std::atoi(argv[2])));
  } catch (const Error& error) {
    if (tells) std::fprintf(stderr, "%s: %s\n", name, error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace lockstep::bench
