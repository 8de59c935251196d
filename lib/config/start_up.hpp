// What a program knows of its start before its ranks are connected.
#pragma once

#include <string>

namespace lockstep {

struct TrainConfig;

struct StartUp {
  double limit_s = 600;      // for the ranks to find each other; 0: none
  std::string run_dir = {};  // whose status.json tells of a start that fails; empty: none
};

/// Whether train prints its plan or a part of it and exits. Pure.
bool prints_plan(const TrainConfig& config);

/// The limit of phase start_up, and the run folder of a job that trains. Pure.
StartUp start_up_of(const TrainConfig& config);

/// Of a program whose ranks have one limit for all phases, or that has one process. Pure.
template <class Config>
StartUp start_up_of(const Config& config) {
  if constexpr (requires { config.watchdog.value; })
    return {.limit_s = config.watchdog.value};
  else
    return {};
}

}  // namespace lockstep
