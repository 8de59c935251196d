// How a job on a mesh lays out the tensors of a model, as far as its config.json tells: heads and widths over tp, rows
// over dp_shard, stages over pp, experts over ep. The same rules as training has (architecture/, program/stages.hpp).
// Pure.
#pragma once

#include "exchange/hf_config.hpp"
#include "layout/layout.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A mesh as it is asked for.
struct AskedMesh {
  std::vector<std::pair<AxisName, int>> axes = {};  // that parallel.* names, with their ranks, in any order
  bool ep_outside = false;                          // as parallel.ep_outside
};

/// Ranks along an axis; 1 if it is not asked for.
int size_along(const AskedMesh& asked, const AxisName& axis);

/// The mesh that a job has which is told so, in the order that it has without parallel.order. Of tp so many neighbours
/// have the same key heads. Throws Error(usage), with the arithmetic, if ep does not divide the ranks of a stage. Pure.
Mesh job_mesh(const AskedMesh& asked, int key_replicas);

/// The axes of that mesh over which a job cuts rows of what ranks hold alike otherwise: dp_shard, and with it those
/// that share sequences. Empty if it is not told to. Pure.
std::vector<AxisName> row_axes(const AskedMesh& asked, const Mesh& mesh);

struct ModelFacts {
  HfConfig config;
  std::int64_t sequence_length = 1;  // by which stages are balanced
};

/// The layouts of weights by their names, in fp32. Stages are cut as the schedule 1f1b has them, balanced. Throws
/// Error(usage), with the arithmetic, where the model cannot be shared out so.
std::map<std::string, Layout> model_layouts(const ModelFacts& model, const Mesh& mesh,
                                            const std::vector<AxisName>& row_axes);

}  // namespace lockstep
