// The mesh of a run: how its ranks divide the work, according to the section parallel of its configuration. Meshes in
// general: layout/mesh.hpp.
#pragma once

#include "architecture/model_config.hpp"
#include "config/train_config.hpp"
#include "layout/nodes.hpp"
#include "program/model_plan.hpp"
#include "program/program_options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Returns the options with a number for an axis that fills a node: the `node_size` ranks of a node divided by the
/// sizes of faster axes. Pure. Throws Error(usage) if they do not divide it, or if node_size is not set: nodes are
/// unknown or of unequal size.
ParallelOptions with_nodes_filled(ParallelOptions parallel, std::optional<int> node_size);

/// Returns the mesh of `ranks` ranks. With post-local SGD the cells lie along dp_replicate, and the replicas of a cell
/// along dp_node. If tp exceeds the number of key heads of `model`, ranks with the same key heads lie along tp_keys.
/// With expert parallelism the mesh also has expert axes. Pure. Throws Error(usage), with the arithmetic, if the axes
/// do not take all ranks, or cells do not divide them.
Mesh mesh_of(const ParallelOptions& parallel, const PostLocalSgdOptions& local, const ModelConfig& model, int ranks);

/// Returns the options of local steps of post-local SGD; without axes if there is one cell. Pure.
LocalOptions local_options(const PostLocalSgdOptions& local, const Mesh& mesh);

/// Returns the number of ranks that the axes need, or `started` if one axis takes the rest. Throws Error(usage) for too
/// many. Pure.
int ranks_of(const ParallelOptions& parallel, int started);

/// Returns a warning for each set of fast axes whose groups would fit on a node but lie on several. Pure.
std::vector<std::string> placement_warnings(const Mesh& mesh, const Nodes& nodes);
/// DataShard is the part of a step's samples that a rank reads; ranks with equal coordinates along the data axes read
/// the same part.
struct DataShard {
  int index = 0;
  int count = 1;
};
DataShard data_place(const Mesh& mesh, Rank rank);

/// Returns the pipeline options for `ranks` pipeline ranks; `blocks` are the names of all blocks. Throws Error(usage)
/// for split points that give no valid stages. Pure.
PipelineOptions pipeline_options(const ParallelOptions& parallel, const std::vector<std::string>& blocks, int ranks,
                                 std::int64_t passes);

/// Returns how units and blocks are split over the ranks of `mesh`. Pure.
Sharding sharding_of(const Mesh& mesh, const ParallelOptions& parallel);

/// Returns the options of sharded units, split as in `sharding`. Pure.
ShardOptions shard_options(const ParallelOptions& parallel, const Sharding& sharding);

}  // namespace lockstep
