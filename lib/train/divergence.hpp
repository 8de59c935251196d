// A run whose loss rises for good: a mean of few of its losses that lies above that of many. What is counted belongs to
// the state of the run, so that a resumed one finds the same at the same step. Losses that are not finite:
// train/nonfinite.hpp.
#pragma once

#include "config/train_config.hpp"
#include "train/train_state.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Counts a finite loss where a detector is asked for; `of` is a text that is equal where losses may be compared. What
/// was counted of others, or by another detector, counts no more. Pure.
void count_loss(const DivergenceOptions& options, const std::string& of, double loss, LossHistory& history);

/// How far the mean of few losses lies above that of many; nothing before so many have been counted. Pure.
std::optional<double> rise_of(const DivergenceOptions& options, const LossHistory& history);

/// Whether that is divergence.threshold or more. Pure.
bool has_diverged(const DivergenceOptions& options, const LossHistory& history);

/// What is then said of the run.
std::string divergence_text(const DivergenceOptions& options, const LossHistory& history);

}  // namespace lockstep
