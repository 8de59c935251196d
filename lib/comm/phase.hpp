// Phase says what a rank does. The watchdog's report, status.json and the injection option use the same words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

enum class Phase {
  start_up,
  data,
  gather,
  forward,
  backward,
  reduction,
  norm,
  optimizer,
  average,  // of weights that ranks have apart (post-local SGD)
  heartbeat,
  callback,    // what callbacks do after a step
  statistics,  // of weights and gradients, after a step
  evaluation,
  sample,
  save_plan,
  save_stage,
  save_write,
  save_seal,
  save_commit,
  save_promote,  // from storage of nodes to the folder of the run
  load,
  shutdown,
  lane  // no rank enters it: what its lanes do beside the phases of a step
};
/// What a rank carries out of its program.
struct CurrentAction {
  int position = -1;         // in its list; -1: nothing
  std::string_view op = {};  // its operation, of which 23 characters are told
};

std::string_view name_of(Phase phase);                    // "start-up", "save.write", …
std::optional<Phase> parse_phase(std::string_view name);  // the inverse
std::string phase_names();                                // all of them, separated by ", "

}  // namespace lockstep
