// The learning rate as a function of the step: warm-up, then constant, linear or cosine decay. A pure function; no state to save.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Decay { constant, linear, cosine };

struct Schedule {
  Decay decay = Decay::cosine;
  double lr = 0;                   // peak, reached at the end of warm-up
  double min_lr = 0;               // from decay_steps on; not used by constant
  std::int64_t warmup_steps = 0;   // W
  std::int64_t decay_steps = 0;    // S: the step at which min_lr is reached
};

/// The rate of 0-based `step`: lr·(step + 1)/W for step < W; then lr at step = W, decaying by (step − W)/(S − W) to min_lr at S and
/// after. nanoGPT's curve, whose warm-up divides by W + 1 instead.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace lockstep
