// What an export says of itself: how each tensor is stored and how far from the source it is, as JSON beside the
// weights and as a table.
#pragma once

#include "artifact/export_weights.hpp"
#include "base/json_fwd.hpp"

#include <string>

namespace lockstep {

/// Beside the weights of every export; also what tells an earlier export from a folder that is not to be overwritten.
inline constexpr const char* export_report_file = "quantization-report.json";

/// What the report file holds: the error of each tensor and of all together. No times or paths: equal inputs give equal
/// bytes.
Json export_report(const FinalizeConfig& config, const ModelSource& source, const ExportedWeights& weights);
/// The same without errors, for a dry run.
Json plan_json(const FinalizeConfig& config, const ModelSource& source, const ExportedWeights& plan);

/// A line a tensor: name, shape, how it is stored, bytes and errors.
std::string error_table(const ExportedWeights& weights);
/// The same without errors, for a dry run.
std::string plan_table(const ExportedWeights& plan);

}  // namespace lockstep
