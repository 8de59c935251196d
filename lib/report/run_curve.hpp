// Reads the loss of a run over its steps from its records: for the curve that train draws, and for
// checkpoint-inspect --curve.
#pragma once

#include "base/files.hpp"
#include "report/curve.hpp"

#include <vector>

namespace lockstep {

/// The losses by step of step and eval records in RUN/records.jsonl: "training" and, if the run evaluated,
/// "validation", or a series for each named dataset. Steps repeated after a resume replace the earlier values; lines
/// that are not records are skipped. Local. Throws Error(input) if the file is absent.
std::vector<Series> loss_series(const Path& run);

CurveLabels loss_labels();

}  // namespace lockstep
