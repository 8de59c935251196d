// What a run leaves for others at its end: its model in the form of Hugging Face.
#pragma once

#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "report/log.hpp"
#include "train/run_files.hpp"

namespace lockstep {

/// Exports the newest checkpoint of the run, with checkpoint.load_best_at_end the best one, to RUN/export/step-N,
/// unless that very state is there already; false where the job was asked to stop meanwhile. The checkpoint stays
/// whatever becomes of the export. Collective over the session's world; failures are those of finalize
/// (artifact/finalize.hpp), with what to do then.
bool export_at_end(const TrainConfig& config, RunFiles& files, Session& session, Log& log);

}  // namespace lockstep
