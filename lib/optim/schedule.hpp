// The learning rate as a function of the step: warm-up, then what the schedule makes of the rest. A pure function; no
// state to save.
#pragma once

#include "config/run_length.hpp"

#include <cstdint>

namespace lockstep {

struct Schedule {
  ScheduleOptions options;
  double peak = 0;  // optimizer.lr
  RunLength length;
};

Schedule schedule_of(const TrainConfig& config, const RunLength& length);

/// The rate of 0-based `step`, from start to peak over the W steps of warm-up: start + (peak − start)·(step + 1)/W, so
/// that its last step has the peak (nanoGPT divides by W + 1), or, counted from zero as in transformers, without the
/// + 1. From step W on, with
/// the part p = (step − W)/(S − W) of the decay that ends at step S, and stays at the minimum from there on:
/// constant is peak; linear minimum + (peak − minimum)·(1 − p); cosine minimum + (peak − minimum)·(1 + cos π·q)/2,
/// where q is the fraction of cycles·p; polynomial minimum + (peak − minimum)·(1 − p)^power; inverse_sqrt, with T =
/// timescale, peak·√(T/(step − W + T)), at least the minimum; wsd peak, and over the last C steps before S, of which
/// the part c is over, minimum + (peak − minimum)·f, where f is 1 − c, (1 + cos π·c)/2 or 1 − √c; infinite constant +
/// (peak − constant)·(1 + cos π·p)/2, and over the last C steps of the run constant·(minimum/constant)^c. What a
/// schedule of a plug-in says counts from step W on. Local, pure.
double learning_rate(const Schedule& schedule, std::int64_t step);

/// Throws Error(usage) for a schedule of a plug-in that says no rate for a step of the run. Local.
void require_rates(const Schedule& schedule);

}  // namespace lockstep
