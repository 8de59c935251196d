// The learning rate as a function of the step: warm-up, then constant, linear or cosine decay. A pure function; no
// state to save.
#pragma once

#include <cstdint>

namespace lockstep {

struct TrainConfig;

/// The rate of 0-based `step`, with peak lr = optimizer.lr, W = warmup_steps and S = decay_steps_of(config): lr·(step +
/// 1)/W while step < W; then lr at step W, falling as a line or a half cosine of (step − W)/(S − W) to min_lr at step S
/// and after; `constant` stays at lr. nanoGPT's curve, whose warm-up divides by W + 1 instead. Local, pure.
double learning_rate(const TrainConfig& config, std::int64_t step);

}  // namespace lockstep
