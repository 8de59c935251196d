// What `train --dry-run` says about a run before anything is allocated: mesh and its ranks, batch, parameters, memory
// by kind, work and checkpoint size. A pure function of plain values; how rows are printed knows nothing of training.
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
  std::string key;      // in JSON, with its unit: "peak_bytes"
  std::string label;    // for people: "peak"
  std::variant<std::int64_t, double, std::string> value;
  std::string text;  // the value for people: "412 MiB"
};

struct DryRunFacts {
  Mesh mesh;
  Placement placement;
  BatchPlan batch;
  std::int64_t length = 0;                 // T, tokens a sample
  std::int64_t steps = 0;                  // of the whole run; 0: not known
  std::int64_t parameters = 0;             // stored elements, padding left out
  std::int64_t frozen_parameters = 0;      // of them, those that are not trained
  double flops_per_token = 0;              // model FLOPs, forward and backward
  std::int64_t weight_bytes = 0;           // of the parameters in the type that a checkpoint stores
  std::int64_t optimizer_state_bytes = 0;  // of the optimizer's tensors in the type that a checkpoint stores
  std::int64_t snapshot_bytes = 0;         // of the rank's copy for saves in the background that needs most
  std::int64_t load_bytes = 0;             // of the rank that needs most as a checkpoint is loaded
};

/// Rows in the order in which they are read. Memory is that of the training program on the rank that needs most, read
/// off its slots.
std::vector<Row> dry_run(const DryRunFacts& facts, const ModelPlan& plan, const Catalogue& programs);

/// Those of them that fit on a screen: what one looks at before a start.
std::vector<Row> brief(const std::vector<Row>& rows);

/// Sections with aligned labels and values.
std::string to_text(const std::vector<Row>& rows);
/// {"memory_per_rank": {"peak_bytes": …, …}, …}
Json to_json(const std::vector<Row>& rows);

}  // namespace lockstep
