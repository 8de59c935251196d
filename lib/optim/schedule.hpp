// The learning rate as a function of the step: warm-up, then constant, linear or cosine decay. A pure function; no
// state to save.
#pragma once

#include "config/run_length.hpp"

#include <cstdint>

namespace lockstep {

struct Schedule {
  ScheduleName name = ScheduleName::constant;
  double peak = 0;     // optimizer.lr
  double minimum = 0;  // at the end of the decay
  RunLength length;
};

Schedule schedule_of(const TrainConfig& config, const RunLength& length);

/// The rate of 0-based `step`, with peak lr, W = warmup_steps and S = decay_steps of the length: lr·(step + 1)/W while
/// step < W; then lr at step W, falling as a line or a half cosine of (step − W)/(S − W) to the minimum at step S and
/// after; `constant` stays at lr. nanoGPT's curve, whose warm-up divides by W + 1 instead. Local, pure.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace lockstep
