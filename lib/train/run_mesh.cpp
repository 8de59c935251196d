#include "train/run_mesh.hpp"

#include "architecture/tensor_parallel.hpp"
#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "plugin/plugins.hpp"
#include "train/plugin_parts.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace lockstep {

namespace {

const AxisName shard_axis = "dp_shard";
// Its factors, slower and faster, where weights are gathered along the faster alone after a forward.
const AxisName outer_shard_axis = "dp_shard_outer", inner_shard_axis = "dp_shard_inner";
const AxisName replica_axis = "dp_replicate";
// Its faster factor, of replicas in one cell.
const AxisName node_axis = "dp_node";

/// The size of an axis as it is asked for; 0: what is left.
struct AskedAxis {
  AxisName name;
  std::int64_t size = 1;
  bool named = false;  // by an option, or always told
};

std::vector<AskedAxis> axes_asked(const ParallelOptions& parallel) {
  const auto of = [](const std::optional<AxisSize>& size, std::int64_t absent) { return size ? size->ranks : absent; };
  const bool left_to_others = of(parallel.pp, 1) == 0 || of(parallel.dp_shard, 1) == 0 || of(parallel.ring, 1) == 0 ||
                              of(parallel.ulysses, 1) == 0 || of(parallel.tp, 1) == 0;
  return {{pipeline_axis, of(parallel.pp, 1), parallel.pp.has_value()},
          {replica_axis, of(parallel.dp_replicate, left_to_others ? 1 : 0), true},
          {shard_axis, of(parallel.dp_shard, 1), parallel.dp_shard.has_value()},
          {ring_axis, of(parallel.ring, 1), parallel.ring.has_value()},
          {ulysses_axis, of(parallel.ulysses, 1), parallel.ulysses.has_value()},
          {tensor_axis, of(parallel.tp, 1), parallel.tp.has_value()}};
}

/// The ranks that the axes with a size take together.
std::int64_t product_of(const std::vector<AskedAxis>& axes) {
  std::int64_t product = 1;
  for (const AskedAxis& axis : axes) product *= std::max<std::int64_t>(axis.size, 1);
  return product;
}

bool one_takes_the_rest(const std::vector<AskedAxis>& axes) {
  return std::ranges::any_of(axes, [](const AskedAxis& axis) { return axis.size == 0; });
}

std::string text_of(const std::vector<AskedAxis>& axes) {
  std::vector<std::string> terms;
  for (const AskedAxis& axis : axes)
    if (axis.named)
      terms.push_back(fmt::format("{}={}", axis.name, axis.size == 0 ? "auto" : fmt::to_string(axis.size)));
  return join(terms, " × ");
}

AxisName name_of(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::pp: return pipeline_axis;
    case MeshAxis::dp_replicate: return replica_axis;
    case MeshAxis::dp_shard: return shard_axis;
    case MeshAxis::ring: return ring_axis;
    case MeshAxis::ulysses: return ulysses_axis;
    case MeshAxis::tp: return tensor_axis;
  }
  fail(ExitCode::bug, "unknown MeshAxis {}", static_cast<int>(axis));
}

/// From the slowest to the fastest: those of `order` last.
void put_in_order(std::vector<AskedAxis>& axes, const std::vector<MeshAxis>& order) {
  for (const MeshAxis next : order) {
    const auto axis = std::ranges::find(axes, name_of(next), &AskedAxis::name);
    std::rotate(axis, axis + 1, axes.end());
  }
}

PipelineSchedule schedule_of(PipelineOrder order) {
  if (const auto index = plugin_index(order)) return PipelineSchedule(pipeline_schedule_of_plugin(*index));
  switch (order) {
    case PipelineOrder::gpipe: return PipelineSchedule::gpipe;
    case PipelineOrder::one_f_one_b: return PipelineSchedule::one_f_one_b;
    case PipelineOrder::interleaved_1f1b: return PipelineSchedule::interleaved_1f1b;
    case PipelineOrder::interleaved_zero_bubble: return PipelineSchedule::interleaved_zero_bubble;
    case PipelineOrder::zbv: return PipelineSchedule::zbv;
  }
  fail(ExitCode::bug, "unknown PipelineOrder {}", static_cast<int>(order));
}

/// Axes along which ranks read other samples.
std::vector<AxisName> data_axes() {
  std::vector<AxisName> axes = ProgramOptions{}.data_axes;
  for (const AxisName& shared : sequence_axes()) std::erase(axes, shared);
  return axes;
}

/// Ranks that gather weights from each other alone after the first forward; 1: there is no such group.
std::int64_t inner_asked(const ParallelOptions& parallel, std::int64_t shards) {
  const std::int64_t ranks = parallel.reshard_after_forward.value_or(AfterForward{}).ranks;
  if (ranks < 2) return 1;
  if (ranks == shards || shards % ranks != 0)
    throw Error(
        ExitCode::usage,
        fmt::format(
            "cannot cut dp_shard={} into groups of parallel.reshard_after_forward {}: {}", shards, ranks,
            ranks == shards ? "that is a single group" : fmt::format("{} mod {} is {}", shards, ranks, shards % ranks)),
        ranks == shards ? "use true, which gathers weights from all ranks again"
                        : "true gathers from all ranks again, false keeps whole weights");
  return ranks;
}

/// Replicas of each cell that sums gradients by itself; 0: no step is local, or all replicas are one cell.
std::int64_t replicas_in_cell(const PostLocalSgdOptions& local, std::int64_t replicas, std::int64_t shards) {
  if (!local.start_step) return 0;
  const std::int64_t cell = local.cell.value_or(shards);
  if (cell % shards != 0)
    throw Error(ExitCode::usage,
                fmt::format("post_local_sgd.cell {} is not a multiple of dp_shard={}: {} mod {} is {}; the ranks of "
                            "one sharded model must be in the same cell",
                            cell, shards, cell, shards, cell % shards),
                fmt::format("post_local_sgd.cell {} makes a cell of one sharded model", shards));
  const std::int64_t inside = cell / shards;
  if (replicas % inside != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot divide dp_replicate={} among cells of {} (post_local_sgd.cell {}): {} mod {} is {}",
                            replicas, counted(inside, "replica"), cell, replicas, inside, replicas % inside),
                "all cells must have the same size");
  return inside == replicas ? 0 : inside;
}

Accumulate accumulation(const ParallelOptions& parallel, bool scatters) {
  if (!parallel.accumulate) return scatters ? Accumulate::shards : Accumulate::whole;
  switch (*parallel.accumulate) {
    case AccumulateGradients::whole: return Accumulate::whole;
    case AccumulateGradients::shards: return Accumulate::shards;
    case AccumulateGradients::sums: return Accumulate::sums;
  }
  fail(ExitCode::bug, "unknown AccumulateGradients {}", static_cast<int>(*parallel.accumulate));
}

std::optional<AxisSize>& size_of(ParallelOptions& parallel, const AxisName& axis) {
  const std::map<AxisName, std::optional<AxisSize>*> sizes{
      {pipeline_axis, &parallel.pp}, {replica_axis, &parallel.dp_replicate}, {shard_axis, &parallel.dp_shard},
      {ring_axis, &parallel.ring},   {ulysses_axis, &parallel.ulysses},      {tensor_axis, &parallel.tp}};
  return *sizes.at(axis);
}

}  // namespace

ParallelOptions with_nodes_filled(ParallelOptions parallel, std::optional<int> node_size) {
  std::vector<AskedAxis> axes = axes_asked(parallel);
  put_in_order(axes, parallel.order);
  const auto filling = std::ranges::find(axes, AxisSize::of_node, &AskedAxis::size);
  if (filling == axes.end()) return parallel;
  if (!node_size)
    throw Error(ExitCode::usage,
                fmt::format("parallel.{} is node, but the number of ranks per node is unknown", filling->name),
                "all nodes must have the same number of ranks; for a plan add --ranks-per-node; or set a number");
  std::int64_t faster = 1;
  for (auto axis = filling + 1; axis != axes.end(); ++axis) faster *= axis->size;
  if (faster <= 0 || *node_size % faster != 0)
    throw Error(
        ExitCode::usage,
        fmt::format("parallel.{} cannot fill a node of {}: faster axes {}", filling->name, counted(*node_size, "rank"),
                    faster <= 0 ? std::string("have no fixed size")
                                : fmt::format("take {}, which does not divide that", counted(faster, "rank"))),
        "choose sizes of the faster axes that divide the ranks of a node, or set a number");
  size_of(parallel, filling->name) = AxisSize{*node_size / faster};
  return parallel;
}

Mesh mesh_of(const ParallelOptions& parallel, const PostLocalSgdOptions& local, const ModelConfig& model, int ranks) {
  std::vector<AskedAxis> asked = axes_asked(parallel);
  const std::int64_t taken = product_of(asked);
  const bool one_is_left = one_takes_the_rest(asked);
  if (one_is_left ? ranks % taken != 0 : ranks != taken) {
    throw Error(ExitCode::usage,
                fmt::format("cannot lay out {} as {}: {}", counted(ranks, "rank"), text_of(asked),
                            one_is_left ? fmt::format("{} does not divide {}", taken, ranks)
                                        : fmt::format("this layout takes {}", counted(taken, "rank"))),
                one_is_left ? fmt::format("start a multiple of {}", counted(taken, "rank"))
                            : fmt::format("leave parallel.dp_replicate out, or start {}", counted(taken, "rank")));
  }
  put_in_order(asked, parallel.order);
  for (AskedAxis& axis : asked)
    if (axis.size == 0) axis.size = ranks / taken;
  const auto size_of = [&](const AxisName& name) { return std::ranges::find(asked, name, &AskedAxis::name)->size; };
  const std::int64_t in_cell = replicas_in_cell(local, size_of(replica_axis), size_of(shard_axis));
  std::vector<std::pair<AxisName, int>> axes;
  for (const auto& [name, size, named] : asked) {
    if (name == replica_axis && in_cell > 0) {
      axes.emplace_back(name, static_cast<int>(size / in_cell));
      axes.emplace_back(node_axis, static_cast<int>(in_cell));
      continue;
    }
    if (const std::int64_t inner = name == shard_axis ? inner_asked(parallel, size) : 1; inner > 1) {
      axes.emplace_back(outer_shard_axis, static_cast<int>(size / inner));
      axes.emplace_back(inner_shard_axis, static_cast<int>(inner));
      continue;
    }
    const int same_keys = name == tensor_axis ? sharing_among(static_cast<int>(size), model).key_replicas : 1;
    if (same_keys > 1) {
      axes.emplace_back(tensor_axis, static_cast<int>(size) / same_keys);
      axes.emplace_back(key_replica_axis, same_keys);
      continue;
    }
    if (size > 1 || name == replica_axis) axes.emplace_back(name, static_cast<int>(size));
  }
  Mesh mesh = make_mesh("world", axes);
  const std::int64_t experts = parallel.ep.value();
  if (experts > 1)
    divide_experts(mesh, checked_cast<int>(experts, "parallel.ep", ExitCode::usage), parallel.ep_outside.value(),
                   sharding_of(mesh, parallel).shards > 1);
  return mesh;
}

LocalOptions local_options(const PostLocalSgdOptions& local, const Mesh& mesh) {
  if (find_axis(mesh, node_axis) == nullptr) return {};
  return {.axes = {replica_axis}, .start_step = *local.start_step, .period = local.period.value()};
}

int ranks_of(const ParallelOptions& parallel, int started) {
  const std::vector<AskedAxis> asked = axes_asked(parallel);
  return one_takes_the_rest(asked)
             ? started
             : checked_cast<int>(product_of(asked), "ranks of the options parallel.*", ExitCode::usage);
}

DataShard data_place(const Mesh& mesh, Rank rank) {
  const std::vector<Rank> others = group_along(mesh, rank, data_axes());
  return {static_cast<int>(std::ranges::find(others, rank) - others.begin()), static_cast<int>(others.size())};
}

PipelineOptions pipeline_options(const ParallelOptions& parallel, const std::vector<std::string>& blocks, int ranks,
                                 std::int64_t passes) {
  PipelineOptions options;
  if (ranks == 1) return options;
  options.schedule = schedule_of(parallel.schedule.value());
  options.chunks = checked_cast<int>(parallel.stages_per_rank.value_or(usual_chunks(options.schedule)),
                                     "parallel.stages_per_rank", ExitCode::usage);
  options.passes = checked_cast<int>(passes, "train.accumulation", ExitCode::usage);
  if (const auto index = plugin_index(parallel.stage_splitter.value())) options.split = splitter_of_plugin(*index);
  if (!parallel.split_points.empty())
    options.stages = stages_split_at(parallel.split_points, blocks, {options.schedule, ranks, options.chunks, 1});
  return options;
}

std::vector<std::string> placement_warnings(const Mesh& mesh, const Nodes& nodes) {
  std::vector<std::string> warnings;
  for (const SplitGroup& torn : groups_across_nodes(mesh, nodes))
    warnings.push_back(
        fmt::format("the group of {} along {} with rank {} spans {}, although one has room for {}: its traffic crosses "
                    "the network; choose sizes of axes that divide the ranks of a machine",
                    counted(torn.ranks, "rank"), join(torn.axes, "+"), torn.rank, counted(torn.nodes, "node"),
                    counted(torn.node_size, "rank")));
  return warnings;
}

Sharding sharding_of(const Mesh& mesh, const ParallelOptions& parallel) {
  Sharding sharding;
  if (const Axis* axis = find_axis(mesh, key_replica_axis)) sharding.blocks.key_replicas = axis->size;
  if (const Axis* axis = find_axis(mesh, tensor_axis))
    sharding.blocks.ranks = axis->size * sharding.blocks.key_replicas;
  if (const Axis* axis = find_axis(mesh, expert_axis))
    sharding.blocks.experts = {
        .ranks = axis->size,
        .shards = find_axis(mesh, expert_shard_axis)->size,
        .capacity = parallel.ep_capacity.value(),
    };
  sharding.blocks.rows = sharding.blocks.ranks > 1 && parallel.sequence_parallel.value();
  for (const Axis& axis : mesh.axes) {  // in the order of ranks
    const bool cuts = axis.name == shard_axis || axis.name == outer_shard_axis || axis.name == inner_shard_axis ||
                      (axis.name == ring_axis && shards_along(parallel, MeshAxis::ring)) ||
                      (axis.name == ulysses_axis && shards_along(parallel, MeshAxis::ulysses));
    if (!cuts || axis.size == 1) continue;
    sharding.axes.push_back(axis.name);
    sharding.shards *= axis.size;
  }
  if (const Axis* inner = find_axis(mesh, inner_shard_axis)) {
    sharding.kept_axes = {inner->name};
    sharding.kept_shards = inner->size;
  }
  return sharding;
}

ShardOptions shard_options(const ParallelOptions& parallel, const Sharding& sharding) {
  const std::int64_t stage = parallel.zero.value();
  const std::optional<AfterForward>& after = parallel.reshard_after_forward;
  return {.reshard_after_forward = after ? after->ranks != 1 : stage == 3,
          .reshard_after_backward = parallel.reshard_after_backward.value_or(stage == 3),
          .accumulate = accumulation(parallel, sharding.shards > 1 && stage > 1),
          .prefetch = checked_cast<int>(parallel.prefetch.value(), "parallel.prefetch", ExitCode::usage)};
}

}  // namespace lockstep
