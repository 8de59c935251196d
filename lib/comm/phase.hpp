// Where a rank is: the same words in the watchdog's report, in status.json and in the injection option.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

enum class Phase {  // lane: no phase of a rank; what its communication lane does beside them
  start_up,
  data,
  forward,
  backward,
  reduction,
  norm,
  optimizer,
  heartbeat,
  evaluation,
  sample,
  save_plan,
  save_stage,
  save_write,
  save_seal,
  save_commit,
  load,
  shutdown,
  lane
};
std::string_view name_of(Phase phase);                    // "start-up", "save.write", …
std::optional<Phase> parse_phase(std::string_view name);  // the inverse
std::string phase_names();                                // all of them, separated by ", "

}  // namespace lockstep
