// What a run that goes on must not change: the options that alter its trajectory, compared with those that it saved.
#pragma once

#include "config/run_length.hpp"
#include "config/train_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// An option that a resumed run must not change, with both values as the files spell them.
struct Difference {
  std::string option;  // "optimizer.lr"
  std::string saved;
  std::string now;
};

/// What a checkpoint tells of the run that saved it.
struct SavedRun {
  std::string config_yaml;
  std::string origin;                   // of it, for messages
  std::optional<ResolvedRun> resolved;  // absent in checkpoints of earlier versions
  std::int64_t step = 0;                // steps that it has done
};

/// The options of `now`, which come to `resolved`, that alter trajectory or shapes and differ from those that the run
/// saved. Files are compared by content elsewhere (dataset hash, tensor shapes), not by the paths that name them. The
/// global batch, warm-up, the end of the decay and data.pad_to_multiple_of are compared as they were resolved, however
/// they are said; the run may become longer, and a decay that follows it then ends later. A cooldown that has not begun
/// may begin at another step. Local. Throws Error(usage) naming the origin of what is not a configuration of train.
std::vector<Difference> differing_fixed_options(const SavedRun& run, const TrainConfig& now,
                                                const ResolvedRun& resolved);

/// Equal for configurations that make the same run: a digest of checkpoint.resume, the sections model and data, and the
/// options that are fixed on resume or say such an option in other words. Pure.
std::string digest_of_run(const TrainConfig& config);

/// Whether checkpoint.allow_change lets an option that such a difference names be another one. Pure.
bool may_change(const TrainConfig& config, const std::string& option);

/// Adds what checkpoint.allow_change cannot name: what is no option, what may change anyway, and what can never be
/// another one in a run, as the shape of its model. Pure.
void check_allowed_changes(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
