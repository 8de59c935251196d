// Options that a resumed run must not change. They affect the trajectory; the current values are compared with the
// saved ones.
#pragma once

#include "config/run_length.hpp"
#include "config/train_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// An option that differs from the saved run. Both values are spelled as in files.
struct Difference {
  std::string option;  // "optimizer.lr"
  std::string saved;
  std::string now;
};

/// A saved run, as its checkpoint describes it.
struct SavedRun {
  std::string config_yaml;
  std::string origin;                   // of the configuration, for messages
  std::optional<ResolvedRun> resolved;  // not set in checkpoints of earlier versions
  std::int64_t step = 0;                // steps done
};

/// Returns the options that are fixed on resume and differ between `now` and the saved run; `resolved` belongs to
/// `now`. Such options affect the trajectory or shapes. Files are compared by content elsewhere (dataset hash, tensor
/// shapes), not by their paths. The global batch, warm-up, the end of the decay and data.pad_to_multiple_of are
/// compared as resolved, not as written. A run may become longer, but a decay that ends with the run then differs in
/// schedule.decay_steps. A cooldown that has not begun may begin at another step. Local. Throws Error(usage) with the
/// origin if the saved text is not a configuration of train, or if it does not give the length of the run.
std::vector<Difference> differing_fixed_options(const SavedRun& run, const TrainConfig& now,
                                                const ResolvedRun& resolved);

/// Returns a digest that is equal for configurations of the same run. It covers checkpoint.resume, the sections model
/// and data, the options that are fixed on resume, and alternative forms of them (such as train.epochs for
/// train.max_steps). Pure.
std::string digest_of_run(const TrainConfig& config);

/// Returns whether checkpoint.allow_change permits a change of `option`, which is the name in a Difference. Pure.
bool may_change(const TrainConfig& config, const std::string& option);

/// Adds a problem for each name in checkpoint.allow_change that is no option or section, that may change anyway, or
/// that can never change in a run, such as the shape of the model. Pure.
void check_allowed_changes(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
