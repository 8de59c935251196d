// The decisions after a training step: evaluate, save, end. Pure: the loop (train/loop.hpp) gathers the facts and acts.
#pragma once

#include "comm/session.hpp"

namespace lockstep {

/// The facts after a step. Every rank has the same.
struct AfterStep {
  StopLevel stop = StopLevel::none;  // as the heartbeat agreed
  bool last = false;                 // the run's length is reached, or early stopping ended it
  bool save_due = false;             // by checkpoint.every, a clock or a request
  bool evaluation_due = false;       // by eval.every, a clock or a request
  bool save_at_end = false;          // checkpoint.at_end
  bool evaluate_at_end = false;      // eval.at_end, or checkpoint.load_best_at_end
  bool evaluate_on_save = false;     // eval.on_save
};

struct StepDecision {
  bool stopping = false;  // a request ends the run after this step, before its last one; its save has no evaluation
  bool evaluate = false;  // before the save
  bool save = false;
  bool ends = false;  // the run ends without a save
  bool operator==(const StepDecision&) const = default;
};

/// Decides on the evaluation, the save and the end that follow a step. If the evaluation ends the run by early
/// stopping, call it again with `last`. Pure.
StepDecision decide(const AfterStep& facts);

}  // namespace lockstep
