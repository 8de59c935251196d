// Where a run is: everything besides weights and moments that decides what its next step does, or that its records continue from. Equal
// on all ranks and independent of how many there are.
#pragma once

#include "data/order.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

struct Trajectory {
  std::int64_t step = 0;                  // optimizer steps done; the next step's 0-based number
  DataPosition position;                  // of the next step's first sample
  std::int64_t tokens = 0;                // labels trained on
  std::optional<double> loss;             // of the last step, nats a token
  std::optional<double> eval_loss;        // of the last evaluation
  std::optional<double> best_eval_loss;
};

}  // namespace lockstep
