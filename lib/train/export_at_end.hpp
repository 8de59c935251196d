// Exports the model in the Hugging Face format at the end of a run.
#pragma once

#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "report/log.hpp"
#include "train/run_files.hpp"

namespace lockstep {

/// Exports the newest checkpoint of the run (with checkpoint.load_best_at_end the best one) to RUN/export/step-N,
/// unless this state is already exported. Returns false if the job was asked to stop meanwhile. The export never
/// changes the checkpoint. Collective over the session's world. Failures are those of finalize (artifact/finalize.hpp),
/// with a hint on how to continue.
bool export_at_end(const TrainConfig& config, RunFiles& files, Session& session, Log& log);

}  // namespace lockstep
