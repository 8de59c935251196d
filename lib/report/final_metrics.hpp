// The results of a run under the names of other trainers, for scripts that read their output.
#pragma once

#include "base/json_fwd.hpp"
#include "report/record.hpp"

namespace lockstep {

/// train_runtime, train_samples_per_second, train_loss, total_flos, …; unknown values are null. `record` sums up all
/// starts of a run. Local.
Json final_metrics(const SummaryRecord& record);

}  // namespace lockstep
