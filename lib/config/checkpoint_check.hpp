// What contradicts itself among the options of checkpoints and evaluations: which are saved, compared, measured, loaded
// and exported.
#pragma once

namespace lockstep {

class Problems;
struct TrainConfig;

/// Adds it. Local, pure.
void check_checkpoint(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
