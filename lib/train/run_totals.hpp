// The work of a run over all its starts, for final_metrics.json. It is a document in each checkpoint, not state: no
// step depends on it, and its times differ between equal runs. Work after the checkpoint from which a run resumes is
// not counted, because it is done again.
#pragma once

#include "store/manifest.hpp"
#include "train/meter.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct RunTotals {
  double wall_s = 0;
  std::int64_t samples = 0;  // trained on
  std::int64_t losses = 0;   // steps that were not skipped
  double loss_sum = 0;       // over them
  TimedSteps timed;          // steps that count for speeds
  bool operator==(const RunTotals&) const = default;
};
RunTotals operator+(const RunTotals& a, const RunTotals& b);  // Pure

inline constexpr const char* run_totals_document = "totals";
std::string document_of(const RunTotals& totals);
/// Returns the totals in a checkpoint; nothing if it has no such document. Local. Throws Error(input) if the document
/// is malformed.
std::optional<RunTotals> run_totals_of(const Manifest& manifest);

}  // namespace lockstep
