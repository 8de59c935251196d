// What a failed save means for the run: training outlives a few of them in a row, for the checkpoint before stays
// current; a save after which nothing follows must succeed. What a save does: checkpoint/save.hpp.
#pragma once

#include "comm/failure.hpp"
#include "config/run_length.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

/// What the loop does after a save.
enum class AfterSave {
  more_steps,
  nothing,     // it is the last one, which the run's end rests on
  end_of_run,  // it was under way when the run came to its end, for whatever reason
};

class FailedSaves {
 public:
  /// `config` outlives it.
  FailedSaves(const TrainConfig& config, const RunLength& length) : config_(config), length_(length) {}

  /// Counts a failed save of `step`, whose run goes back to `current` (a step; 0: to its beginning) if it ends. Returns
  /// what to tell, or throws AgreedError(storage) if this failure ends the run: the last save, or
  /// checkpoint.max_failures in a row. Local; equal on all ranks.
  std::string on_save_failure(const AgreedError& error, std::int64_t step, std::int64_t current, AfterSave after);
  /// A save succeeded.
  void forget() { in_a_row_ = 0; }

 private:
  const TrainConfig& config_;
  RunLength length_;
  std::int64_t in_a_row_ = 0;
};

}  // namespace lockstep
