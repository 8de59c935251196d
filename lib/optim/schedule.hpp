// The learning rate as a function of the step: warm-up, then the schedule. A pure function; no state to save.
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

/// The learning rate of 0-based `step`.
///
/// Warm-up over W steps goes from start to peak: start + (peak − start)·(step + 1)/W, so that its last step has the
/// peak (nanoGPT divides by W + 1). Counted from zero, as in transformers, it has no + 1.
///
/// From step W on the schedule applies. p = (step − W)/(S − W) is the finished part of a decay that ends at step S.
/// After S linear, cosine, polynomial and wsd stay at the minimum. The schedules:
/// constant      peak
/// linear        minimum + (peak − minimum)·(1 − p)
/// cosine        minimum + (peak − minimum)·(1 + cos π·q)/2, where q is the fraction of cycles·p
/// polynomial    minimum + (peak − minimum)·(1 − p)^power
/// inverse_sqrt  peak·√(T/(step − W + T)) with T = timescale, at least the minimum
/// wsd           peak, and over the last C steps before S minimum + (peak − minimum)·f, where c is their finished part
///               and f is 1 − c, (1 + cos π·c)/2 or 1 − √c
/// infinite      constant + (peak − constant)·(1 + cos π·p)/2, and over the last C steps of the run
///               constant·(minimum/constant)^c
/// A plug-in's schedule gives the rates from step W on. Local, pure.
double learning_rate(const Schedule& schedule, std::int64_t step);

/// Throws Error(usage) if a plug-in's schedule returns a rate that is negative or not finite for a step of the run.
/// Local.
void require_rates(const Schedule& schedule);

}  // namespace lockstep
