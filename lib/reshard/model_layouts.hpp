// Computes from config.json how a job on a mesh lays out the tensors of a model: heads and widths over tp, rows over
// dp_shard, stages over pp, experts over ep. Training has the same rules (architecture/, program/stages.hpp). Pure.
#pragma once

#include "architecture/model_config.hpp"
#include "layout/layout.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The mesh that the user asks for.
struct MeshRequest {
  std::vector<std::pair<AxisName, int>> axes = {};  // axes of parallel.* and their ranks, in any order
  bool ep_outside = false;                          // see parallel.ep_outside
};

/// Returns the ranks along an axis; 1 if it is not set.
int size_along(const MeshRequest& asked, const AxisName& axis);

/// Returns the mesh of a job with these options, in the default order of axes. Each `key_replicas` neighbours along tp
/// have the same key heads. Throws Error(usage), with the arithmetic, if ep does not divide the ranks of a stage. Pure.
Mesh job_mesh(const MeshRequest& asked, int key_replicas);

/// Returns the axes over which a job shards rows of tensors that ranks would otherwise replicate: dp_shard, and with it
/// ring and ulysses. Empty if dp_shard is not set. Pure.
std::vector<AxisName> row_axes(const MeshRequest& asked, const Mesh& mesh);

struct ModelFacts {
  ModelConfig config;
  std::int64_t sequence_length = 1;  // stages are balanced for it
};

/// Returns the layouts of weights by name, in fp32. Stages are those of the schedule 1f1b, balanced. Throws
/// Error(usage), with the arithmetic, if the mesh cannot divide the model.
std::map<std::string, Layout> model_layouts(const ModelFacts& model, const Mesh& mesh,
                                            const std::vector<AxisName>& row_axes);

}  // namespace lockstep
