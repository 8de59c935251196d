// Decides how a run continues after a failed save. Training continues after a few failures in a row, because the
// previous checkpoint stays current. A last save must succeed. The save itself: checkpoint/save.hpp.
#pragma once

#include "comm/failure.hpp"
#include "config/run_length.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

/// AfterSave says how the loop continues after a save.
enum class AfterSave {
  more_steps,
  nothing,     // it is the last save; the end of the run depends on it
  end_of_run,  // the run ended, for any reason, while the save was under way
};

class FailedSaves {
 public:
  /// `config` must outlive it.
  FailedSaves(const TrainConfig& config, const RunLength& length) : config_(config), length_(length) {}

  /// Counts a failed save of `step`. If the run ends, it can resume from step `current` (0: it has no checkpoint).
  /// Returns a message, or throws AgreedError(storage) if this failure ends the run: it is the last save, or
  /// checkpoint.max_failures saves have failed in a row. Local; equal on all ranks.
  std::string on_save_failure(const AgreedError& error, std::int64_t step, std::int64_t current, AfterSave after);
  /// Resets the count after a successful save.
  void forget() { in_a_row_ = 0; }

 private:
  const TrainConfig& config_;
  RunLength length_;
  std::int64_t in_a_row_ = 0;
};

}  // namespace lockstep
