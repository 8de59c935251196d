// Rules for the options of checkpoints and evaluations: saving, comparing, evaluating, loading and exporting.
#pragma once

namespace lockstep {

class Problems;
struct TrainConfig;

/// Adds a problem for each contradiction. Local, pure.
void check_checkpoint(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
