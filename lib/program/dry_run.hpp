// The report of `train --dry-run` about a run before anything is allocated: mesh and its ranks, batch, parameters,
// memory by kind, work and checkpoint size. A pure function of plain values; printing rows needs no knowledge of
// training.
#pragma once

#include "base/json_fwd.hpp"
#include "layout/nodes.hpp"
#include "program/batch_plan.hpp"
#include "program/catalogue.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace lockstep {

struct Row {
  std::string section;  // "memory per rank"
  std::string key;      // with its unit, for JSON: "peak_bytes"
  std::string label;    // for people: "peak"
  std::variant<std::int64_t, double, std::string> value;
  std::string text;  // of the value, for people: "412 MiB"
};

struct DryRunFacts {
  Mesh mesh;
  Placement placement;
  BatchPlan batch;
  std::int64_t length = 0;                 // T, tokens per sample
  std::int64_t steps = 0;                  // of the whole run; 0: not known
  std::int64_t samples = 0;                // of the whole run
  std::int64_t parameters = 0;             // stored elements, without padding
  std::int64_t frozen_parameters = 0;      // parameters that are not trained
  double flops_per_token = 0;              // model FLOPs, forward and backward
  std::int64_t weight_bytes = 0;           // of the parameters, in the type stored in a checkpoint
  std::int64_t optimizer_state_bytes = 0;  // of the optimizer's tensors, in the type stored in a checkpoint
  std::int64_t snapshot_bytes = 0;         // of a copy for background saves, on the rank that needs most
  std::int64_t load_bytes = 0;             // while a checkpoint is loaded, on the rank that needs most
};

/// The rows in reading order. Memory is taken from the slots of the training program, on the rank that needs most.
std::vector<Row> dry_run(const DryRunFacts& facts, const ModelPlan& plan, const Catalogue& programs);

/// The rows that a user looks at before a start; they fit on a screen.
std::vector<Row> brief(const std::vector<Row>& rows);

/// Text with a section for each group of rows, and aligned labels and values.
std::string to_text(const std::vector<Row>& rows);
/// {"memory_per_rank": {"peak_bytes": …, …}, …}
Json to_json(const std::vector<Row>& rows);

}  // namespace lockstep
