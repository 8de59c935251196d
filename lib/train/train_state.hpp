// The state of a run besides weights and moments: everything that decides its next step or that its records continue
// from. Equal on all ranks, and independent of their number.
#pragma once

#include "data/batch.hpp"
#include "data/sample_order.hpp"
#include "optim/loss_scale.hpp"
#include "store/best_evaluations.hpp"
#include "train/run_totals.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// LossHistory holds the losses that divergence.detector uses.
struct LossHistory {
  std::optional<double> few, many;  // detector averages: fast and slow moving averages
  std::vector<double> last;         // detector windows: the last losses, as many as the wider window has
  std::string of;                   // detector and kind of losses; empty: an earlier version did not store it
  bool operator==(const LossHistory&) const = default;
};

struct TrainState {
  std::int64_t step = 0;    // steps done, including skipped ones; the 0-based number of the next step
  DataPosition position;    // of the first sample of the next step
  std::int64_t tokens = 0;  // labels trained on
  // trained on, by dataset; not set: the run was begun by a version that did not count
  std::optional<std::vector<DatasetUse>> uses;
  // steps that changed no weight and no moment, because a loss or gradient was not finite
  std::int64_t skipped = 0;
  // consecutive skipped steps, overflows not counted; survives a resume, because it counts along the trajectory
  std::int64_t skipped_in_a_row = 0;
  LossScale loss_scale;             // for training in fp16
  std::optional<double> loss;       // of the last step that was not skipped, nats per token
  std::optional<double> eval_loss;  // of the last evaluation; not set if it was not finite
  std::optional<double> best_eval_loss;
  BestEvaluations best_evaluations;
  // best value of the metric so far, for eval.patience
  std::optional<double> best_counted;
  std::int64_t without_gain = 0;  // evaluations since then without improvement
  std::string evaluation;         // TrainPlan::evaluation of these best values
  LossHistory losses;
  // of the starts before this one; not set: from scratch, or the checkpoint is of an earlier version
  std::optional<RunTotals> before;
};

}  // namespace lockstep
