#include "train/early_stop.hpp"

namespace lockstep {

void count_evaluation(const EvalOptions& options, const BestBy& by, std::optional<double> value, TrainState& state) {
  if (!options.patience) return;
  const double sign = by.higher.value_or(false) ? 1 : -1;
  if (value && (!state.best_counted || sign * (*value - *state.best_counted) > options.min_gain)) {
    state.best_counted = value;
    state.without_gain = 0;
  } else {
    ++state.without_gain;
  }
}

bool has_lost_patience(const EvalOptions& options, const TrainState& state) {
  return options.patience && state.without_gain >= *options.patience;
}

bool is_finished(const TrainConfig& config, const TrainPlan& plan, const TrainState& state) {
  return state.step >= plan.length.steps || has_lost_patience(config.eval, state);
}

}  // namespace lockstep
