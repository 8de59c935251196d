#include "train/step_decision.hpp"

namespace lockstep {

StepDecision decide(const AfterStep& facts) {
  StepDecision decision;
  decision.stopping = facts.stop == StopLevel::after_step && !facts.last;
  decision.save = decision.stopping || facts.save_due || (facts.last && facts.save_at_end);
  decision.ends = !decision.save && (facts.last || facts.stop == StopLevel::now);
  decision.evaluate = facts.evaluation_due || (facts.last && facts.evaluate_at_end) ||
                      (decision.save && !decision.stopping && facts.evaluate_on_save);
  return decision;
}

}  // namespace lockstep
