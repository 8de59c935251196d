// The loss of a run over its steps, read back from its records: for the drawing that train leaves and for
// checkpoint-inspect --curve.
#pragma once

#include "base/files.hpp"
#include "report/curve.hpp"

#include <vector>

namespace lockstep {

/// "training" and, if the run evaluated, "validation": losses of step and eval records of RUN/records.jsonl by step. A
/// step that was recorded again after a resume counts once, with its last value; lines that are no
/// records are left out. Local. Throws Error(input) if the file is absent.
std::vector<Series> loss_series(const Path& run);

CurveLabels loss_labels();

}  // namespace lockstep
