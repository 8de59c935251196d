#include "train/run_mesh.hpp"

#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

namespace lockstep {

namespace {

// Sizes as they are asked for; 0: what is left.
std::int64_t replicas_asked(const ParallelOptions& parallel) {
  if (parallel.dp_replicate) return parallel.dp_replicate->ranks;
  return parallel.dp_shard && parallel.dp_shard->ranks == 0 ? 1 : 0;
}
std::int64_t shards_asked(const ParallelOptions& parallel) { return parallel.dp_shard ? parallel.dp_shard->ranks : 1; }

std::string asked_text(std::int64_t size) { return size == 0 ? "auto" : fmt::to_string(size); }

}  // namespace

Mesh mesh_of(const ParallelOptions& parallel, int ranks) {
  std::int64_t replicas = replicas_asked(parallel), shards = shards_asked(parallel);
  const std::int64_t asked = std::max<std::int64_t>(replicas, 1) * std::max<std::int64_t>(shards, 1);
  const bool one_is_left = replicas == 0 || shards == 0;
  if (one_is_left ? ranks % asked != 0 : ranks != asked) {
    const std::string axes =
        parallel.dp_shard ? fmt::format("dp_replicate={} × dp_shard={}", asked_text(replicas), asked_text(shards))
                          : fmt::format("dp_replicate={}", asked_text(replicas));
    throw Error(ExitCode::usage,
                fmt::format("cannot lay out {} as {}: {}", counted(ranks, "rank"), axes,
                            one_is_left ? fmt::format("{} does not divide {}", asked, ranks)
                                        : fmt::format("that takes {}", counted(asked, "rank"))),
                one_is_left ? fmt::format("start a multiple of {}", counted(asked, "rank"))
                            : fmt::format("leave parallel.dp_replicate out, or start {}", counted(asked, "rank")));
  }
  if (replicas == 0) replicas = ranks / asked;
  if (shards == 0) shards = ranks / asked;
  std::vector<std::pair<AxisName, int>> axes{{"dp_replicate", static_cast<int>(replicas)}};
  if (shards > 1) axes.emplace_back("dp_shard", static_cast<int>(shards));
  return make_mesh("world", axes);
}

int ranks_of(const ParallelOptions& parallel, int started) {
  const std::int64_t asked = replicas_asked(parallel) * shards_asked(parallel);
  return asked == 0 ? started : checked_cast<int>(asked, "the ranks of parallel.*", ExitCode::usage);
}

std::vector<std::string> placement_warnings(const Mesh& mesh, const Nodes& nodes) {
  std::vector<std::string> warnings;
  for (const TornGroup& torn : torn_groups(mesh, nodes))
    warnings.push_back(fmt::format(
        "the {} along {} of rank {} lie on {}, though one has room for {}: what they say often leaves the machine; "
        "number ranks one machine after the other, or let sizes of axes divide the ranks of a machine",
        counted(torn.ranks, "rank"), join(torn.axes, "+"), torn.rank, counted(torn.nodes, "node"),
        counted(torn.node_size, "rank")));
  return warnings;
}

Sharding sharding_of(const Mesh& mesh) {
  const Axis* axis = find_axis(mesh, "dp_shard");
  return axis && axis->size > 1 ? Sharding{{axis->name}, axis->size} : Sharding{};
}

std::int64_t length_multiple_of(const Mesh& mesh) {
  std::int64_t ranks = 1;
  for (const Axis& axis : mesh.axes)
    if (axis.name == "ring" || axis.name == "ulysses") ranks *= axis.size;
  return ranks;
}

ShardOptions shard_options(const ParallelOptions& parallel) {
  const std::int64_t stage = parallel.zero.value_or(3);
  const ScatterGradients scatter =
      parallel.scatter.value_or(stage == 1 ? ScatterGradients::last : ScatterGradients::each);
  return {.reshard = stage == 3 ? Reshard::after_pass : Reshard::after_step,
          .scatter = scatter == ScatterGradients::each ? Scatter::each : Scatter::last,
          .prefetch = checked_cast<int>(parallel.prefetch.value_or(1), "parallel.prefetch", ExitCode::usage)};
}

}  // namespace lockstep
