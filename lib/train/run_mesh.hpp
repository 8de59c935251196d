// The mesh of a run: how its ranks divide the work, from the parallel section of its configuration.
#pragma once

#include "config/train_config.hpp"
#include "exchange/hf_config.hpp"
#include "layout/nodes.hpp"
#include "program/model_plan.hpp"
#include "program/program_options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The options with a number where an axis fills a node: so many of its `node_size` ranks as faster axes leave. Pure.
/// Throws Error(usage) where these do not divide them; absent: where the nodes are not known, or not equally large.
ParallelOptions with_nodes_filled(ParallelOptions parallel, std::optional<int> node_size);

/// The mesh of `ranks` ranks. Where cells of them train apart these lie along dp_replicate, and the replicas of a cell
/// along dp_node; where more ranks share blocks than `model` has key heads, those with the same along tp_keys; where
/// ranks share out experts it is divided for these too. Throws Error(usage), with the arithmetic, if the axes do not
/// take them all, or the cells do not divide them. Pure.
Mesh mesh_of(const ParallelOptions& parallel, const PostLocalSgdOptions& local, const HfConfig& model, int ranks);

/// What the options say of steps in which cells of ranks train apart; without axes if there is one cell. Pure.
LocalOptions local_options(const PostLocalSgdOptions& local, const Mesh& mesh);

/// The ranks that the axes ask for; `started` if one of them takes what is left. Throws Error(usage) for too many.
/// Pure.
int ranks_of(const ParallelOptions& parallel, int started);

/// A warning for each set of fast axes whose groups would fit on a node but lie on several. Pure.
std::vector<std::string> placement_warnings(const Mesh& mesh, const Nodes& nodes);
/// Which part of a step's samples a rank reads: ranks that differ in no data axis read the same.
struct DataPlace {
  int index = 0;
  int count = 1;
};
DataPlace data_place(const Mesh& mesh, Rank rank);

/// What the options say of the stages of so many pipeline `ranks`; `blocks` are the names of all. Throws Error(usage)
/// for split points that make no stages. Pure.
PipelineOptions pipeline_options(const ParallelOptions& parallel, const std::vector<std::string>& blocks, int ranks,
                                 std::int64_t passes);

/// How units, and blocks, are cut over the ranks of `mesh`. Pure.
Sharding sharding_of(const Mesh& mesh, const ParallelOptions& parallel);

/// What the options say of units, cut as `sharding` says. Pure.
ShardOptions shard_options(const ParallelOptions& parallel, const Sharding& sharding);

}  // namespace lockstep
