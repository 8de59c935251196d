#include "config/start_up.hpp"

#include "config/train_config.hpp"

namespace lockstep {

bool prints_plan(const TrainConfig& config) {
  return config.print_program || config.print_layout || config.print_groups || config.print_components ||
         config.plot_program || config.plot_schedule;
}

StartUp start_up_of(const TrainConfig& config) {
  StartUp start{.limit_s = config.train.watchdog.value};
  for (const PhaseLimit& own : config.train.watchdog_phases)
    if (own.phase == WatchedPhase::start_up) start.limit_s = own.limit.value;
  if (!reads_weights_alone(config) && !config.calibrate && !config.check_device && !prints_plan(config))
    start.run_dir = config.train.run_dir;
  return start;
}

}  // namespace lockstep
