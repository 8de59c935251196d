// Facts about a program's start that are needed before its ranks are connected.
#pragma once

#include <string>

namespace lockstep {

struct TrainConfig;

struct StartUp {
  double limit_s = 600;      // for connecting the ranks; 0: no limit
  std::string run_dir = {};  // its status.json records a failed start; empty: none
};

/// Returns whether train prints its plan or a part of it, and exits. Pure.
bool prints_plan(const TrainConfig& config);

/// Returns the limit of phase start_up, and the run folder of a training job. Pure.
StartUp start_up_of(const TrainConfig& config);

/// Returns the same for a program with one limit for all phases, or with a single process. Pure.
template <class Config>
StartUp start_up_of(const Config& config) {
  if constexpr (requires { config.watchdog.value; })
    return {.limit_s = config.watchdog.value};
  else
    return {};
}

}  // namespace lockstep
