// Phase names the current work of a rank. The watchdog's report, status.json and the injection option use the same
// words.
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
  average,  // of weights that cells of ranks hold apart (post-local SGD)
  heartbeat,
  callback,    // work of callbacks after a step
  statistics,  // of weights and gradients, after a step
  evaluation,
  sample,
  save_plan,
  save_stage,
  save_write,
  save_seal,
  save_commit,
  save_promote,  // from node-local storage to the folder of the run
  load,
  shutdown,
  lane  // no rank enters it: operations on lanes beside the phases of a step
};
/// The action of its program that a rank performs.
struct CurrentAction {
  int position = -1;         // in the rank's list; -1: none
  std::string_view op = {};  // name of its operation; at most 63 characters are shown
};

std::string_view name_of(Phase phase);                    // "start-up", "save.write", …
std::optional<Phase> parse_phase(std::string_view name);  // the inverse
std::string phase_names();                                // all of them, separated by ", "

}  // namespace lockstep
