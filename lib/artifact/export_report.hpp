// The report of an export: how each tensor is stored and how much it differs from the source, as JSON beside the
// weights and as a table.
#pragma once

#include "artifact/export_weights.hpp"
#include "base/json_fwd.hpp"

#include <string>

namespace lockstep {

/// The report lies beside the weights of every export. It also marks a folder as an export that may be overwritten.
inline constexpr const char* export_report_file = "quantization-report.json";

/// Returns the content of the report file: errors of each tensor and of all together. It has no times or paths, so
/// equal inputs give equal bytes.
Json export_report(const FinalizeConfig& config, const ModelSource& source, const ExportedWeights& weights);
/// Returns the report without errors, for a dry run.
Json plan_json(const FinalizeConfig& config, const ModelSource& source, const ExportedWeights& plan);

/// Returns a table with a line per tensor: name, shape, storage, bytes and errors.
std::string error_table(const ExportedWeights& weights);
/// Returns the table without errors, for a dry run.
std::string plan_table(const ExportedWeights& plan);

}  // namespace lockstep
