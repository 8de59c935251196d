// What a run came to under the names that other trainers give these numbers, for scripts that read theirs.
#pragma once

#include "base/json_fwd.hpp"
#include "report/record.hpp"

namespace lockstep {

/// train_runtime, train_samples_per_second, train_loss, total_flos, …: what is not known is null. Local.
Json final_metrics(const SummaryRecord& record);

}  // namespace lockstep
