// Detects a lasting rise of the loss: the mean of the last few losses lies above the mean of many. The counted losses
// belong to the state of the run, so a resumed run detects the same at the same step. Losses that are not finite:
// train/nonfinite.hpp.
#pragma once

#include "config/train_config.hpp"
#include "train/train_state.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Counts a finite loss if a detector is configured. `of` is equal for losses that may be compared. The history is
/// cleared if `of` or the detector has changed. Pure.
void count_loss(const DivergenceOptions& options, const std::string& of, double loss, LossHistory& history);

/// Returns the difference between the mean of few losses and that of many; nothing before enough losses have been
/// counted. Pure.
std::optional<double> rise_of(const DivergenceOptions& options, const LossHistory& history);

/// Returns whether that difference is divergence.threshold or more. Pure.
bool has_diverged(const DivergenceOptions& options, const LossHistory& history);

/// Returns the message about a run that has diverged.
std::string divergence_text(const DivergenceOptions& options, const LossHistory& history);

}  // namespace lockstep
