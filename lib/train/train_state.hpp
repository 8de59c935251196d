// Where a run is: everything besides weights and moments that decides what its next step does, or that its records
// continue from. Equal on all ranks and independent of how many there are.
#pragma once

#include "data/batch.hpp"
#include "data/sample_order.hpp"
#include "optim/loss_scale.hpp"
#include "store/best_evaluations.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Of the losses that divergence.detector looks at, as it keeps them.
struct LossHistory {
  std::optional<double> few, many;  // averages that follow fast and slowly
  std::vector<double> last;         // or so many as the wider window has
  std::string of;                   // who looks at which losses; empty: an earlier version did not say
  bool operator==(const LossHistory&) const = default;
};

struct TrainState {
  std::int64_t step = 0;                        // steps done, skipped ones included; the next step's 0-based number
  DataPosition position;                        // of the next step's first sample
  std::int64_t tokens = 0;                      // labels trained on
  std::optional<std::vector<DatasetUse>> uses;  // by dataset, trained on; absent: begun by a version that did not count
  std::int64_t skipped = 0;           // steps that changed no weight and no moment: loss or gradient was not finite
  std::int64_t skipped_in_a_row = 0;  // since the last step that was not, overflows left out; survives a resume, so
                                      // that it counts the same trajectory
  LossScale loss_scale;               // of training in fp16
  std::optional<double> loss;         // of the last step that was not skipped, nats a token
  std::optional<double> eval_loss;    // of the last evaluation; absent if it was not finite
  std::optional<double> best_eval_loss;
  BestEvaluations best_evaluations;
  std::optional<double> best_counted;  // value of the best metric that eval.patience waits for a better one than
  std::int64_t without_gain = 0;       // evaluations since
  std::string evaluation;              // TrainPlan::evaluation of these three
  LossHistory losses;
};

}  // namespace lockstep
