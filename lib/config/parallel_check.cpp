#include "config/parallel_check.hpp"

#include "base/words.hpp"
#include "config/option_rules.hpp"
#include "config/train_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// Ranks along an axis: 0 is auto.
std::int64_t size_along(const std::optional<AxisSize>& axis) { return axis.value_or(AxisSize{1}).ranks; }
/// dp_replicate takes the ranks that are left, unless it is set.
std::int64_t replicas_of(const ParallelOptions& parallel) { return parallel.dp_replicate.value_or(AxisSize{}).ranks; }

bool has_one_stage(const TrainConfig& config) { return size_along(config.parallel.pp) == 1; }

bool divides_sequences(const ParallelOptions& parallel) {
  return size_along(parallel.ring) != 1 || size_along(parallel.ulysses) != 1;
}

bool shards_nothing(const TrainConfig& config) {
  const ParallelOptions& parallel = config.parallel;
  const auto shards = [&](const std::optional<AxisSize>& axis, MeshAxis name) {
    return size_along(axis) != 1 && shards_along(parallel, name);
  };
  return size_along(parallel.dp_shard) == 1 && !shards(parallel.ring, MeshAxis::ring) &&
         !shards(parallel.ulysses, MeshAxis::ulysses);
}

bool isolates_documents(const DataOptions& data) {
  return data.isolate_documents || data.packing != SamplePacking::windows;
}

const std::vector<Rule>& parallel_rules() {
  static const std::vector<Rule> all{
      {{"parallel.order"},
       [](const TrainConfig& config) {
         const std::vector<MeshAxis>& order = config.parallel.order;
         return std::set<MeshAxis>(order.begin(), order.end()).size() < order.size();
       },
       "parallel.order names an axis twice"},
      {{"parallel.sequence_parallel", "parallel.tp"},
       [](const TrainConfig& config) {
         return config.parallel.sequence_parallel.is_set() && size_along(config.parallel.tp) == 1;
       },
       "parallel.sequence_parallel has no effect: parallel.tp is 1"},
      {{"parallel.ep_outside", "parallel.ep"},
       [](const TrainConfig& config) { return config.parallel.ep_outside.is_set() && config.parallel.ep.value() <= 1; },
       "parallel.ep_outside has no effect: parallel.ep is 1"},
      {{"parallel.ep_capacity", "parallel.ep"},
       [](const TrainConfig& config) {
         return config.parallel.ep_capacity.is_set() && config.parallel.ep.value() <= 1;
       },
       "parallel.ep_capacity has no effect: parallel.ep is 1"},
      {{"parallel.cp_fsdp_mode", "parallel.ulysses"},
       [](const TrainConfig& config) {
         return config.parallel.cp_fsdp_mode.is_set() && !divides_sequences(config.parallel);
       },
       "parallel.cp_fsdp_mode has no effect: parallel.ring and parallel.ulysses are 1"},
      {{"parallel.cp_fsdp_mode", "parallel.dp_shard"},
       [](const TrainConfig& config) {
         return config.parallel.cp_fsdp_mode.is_set() && divides_sequences(config.parallel) &&
                !config.parallel.dp_shard;
       },
       "parallel.cp_fsdp_mode has no effect: without parallel.dp_shard no weights are sharded"},
      {{"data.max_documents_per_row", "parallel.ring"},
       [](const TrainConfig& config) {
         return config.data.max_documents_per_row.has_value() && size_along(config.parallel.ring) == 1;
       },
       "data.max_documents_per_row has no effect: parallel.ring is 1, so documents are not padded"},
      {{"data.max_documents_per_row", "data.isolate_documents"},
       [](const TrainConfig& config) {
         return config.data.max_documents_per_row.has_value() && size_along(config.parallel.ring) != 1 &&
                !isolates_documents(config.data);
       },
       "data.max_documents_per_row has no effect: without data.isolate_documents a sample is one document"},
      {{"parallel.schedule", "parallel.pp"},
       [](const TrainConfig& config) { return config.parallel.schedule.is_set() && has_one_stage(config); },
       "parallel.schedule has no effect: parallel.pp is 1, so there is one stage"},
      {{"parallel.stages_per_rank", "parallel.pp"},
       [](const TrainConfig& config) { return config.parallel.stages_per_rank.has_value() && has_one_stage(config); },
       "parallel.stages_per_rank has no effect: parallel.pp is 1, so there is one stage"},
      {{"parallel.split_points", "parallel.pp"},
       [](const TrainConfig& config) { return !config.parallel.split_points.empty() && has_one_stage(config); },
       "parallel.split_points has no effect: parallel.pp is 1, so there is one stage"},
      {{"parallel.stage_splitter", "parallel.pp"},
       [](const TrainConfig& config) { return config.parallel.stage_splitter.is_set() && has_one_stage(config); },
       "parallel.stage_splitter has no effect: parallel.pp is 1, so there is one stage"},
      {{"parallel.stage_splitter", "parallel.split_points"},
       [](const TrainConfig& config) {
         return config.parallel.stage_splitter.is_set() && !config.parallel.split_points.empty();
       },
       "parallel.stage_splitter and parallel.split_points both set where stages begin: leave one out"},
      {{"parallel.zero", "parallel.dp_shard"},
       [](const TrainConfig& config) { return config.parallel.zero.is_set() && shards_nothing(config); },
       "parallel.zero has no effect: parallel.dp_shard is 1, so nothing is sharded"},
      {{"parallel.prefetch", "parallel.dp_shard"},
       [](const TrainConfig& config) { return config.parallel.prefetch.is_set() && shards_nothing(config); },
       "parallel.prefetch has no effect: parallel.dp_shard is 1, so nothing is sharded"},
      {{"parallel.reshard_after_forward", "parallel.dp_shard"},
       [](const TrainConfig& config) {
         return config.parallel.reshard_after_forward.has_value() && shards_nothing(config);
       },
       "parallel.reshard_after_forward has no effect: parallel.dp_shard is 1, so nothing is sharded"},
      {{"parallel.reshard_after_backward", "parallel.dp_shard"},
       [](const TrainConfig& config) {
         return config.parallel.reshard_after_backward.has_value() && shards_nothing(config);
       },
       "parallel.reshard_after_backward has no effect: parallel.dp_shard is 1, so nothing is sharded"},
      {{"parallel.accumulate", "parallel.dp_shard"},
       [](const TrainConfig& config) {
         return config.parallel.accumulate == AccumulateGradients::shards && shards_nothing(config);
       },
       "parallel.accumulate shards has no effect: parallel.dp_shard is 1, so nothing is sharded"},
      {{"train.offload", "parallel.dp_shard"},
       [](const TrainConfig& config) {
         return std::ranges::find(config.train.offload, Offload::shards) != config.train.offload.end() &&
                shards_nothing(config);
       },
       "train.offload shards has no effect: parallel.dp_shard is 1, so nothing is sharded"},
      {{"post_local_sgd.period", "post_local_sgd.start_step"},
       [](const TrainConfig& config) {
         return config.post_local_sgd.period.is_set() && !config.post_local_sgd.start_step;
       },
       "post_local_sgd.period has no effect: without post_local_sgd.start_step no step is local"},
      {{"post_local_sgd.cell", "post_local_sgd.start_step"},
       [](const TrainConfig& config) {
         return config.post_local_sgd.cell.has_value() && !config.post_local_sgd.start_step;
       },
       "post_local_sgd.cell has no effect: without post_local_sgd.start_step no step is local"},
  };
  return all;
}

/// One axis takes the ranks that are left, and one those of a node.
void check_sizes(const ParallelOptions& parallel, Problems& problems) {
  std::vector<std::string> automatic, of_node;
  for (const auto& [name, ranks] : {std::pair("parallel.pp", size_along(parallel.pp)),
                                    {"parallel.dp_replicate", parallel.dp_replicate ? replicas_of(parallel) : 1},
                                    {"parallel.dp_shard", size_along(parallel.dp_shard)},
                                    {"parallel.tp", size_along(parallel.tp)},
                                    {"parallel.ring", size_along(parallel.ring)},
                                    {"parallel.ulysses", size_along(parallel.ulysses)}}) {
    if (ranks == 0) automatic.emplace_back(name);
    if (ranks == AxisSize::of_node) of_node.emplace_back(name);
  }
  if (automatic.size() > 1) problems.add(automatic, "only one parallel size can be auto");
  if (of_node.size() > 1) problems.add(of_node, "only one parallel size can be node");
}

void check_samples(const TrainConfig& config, Problems& problems) {
  const std::int64_t ranks = std::max<std::int64_t>(replicas_of(config.parallel), 1) *
                             std::max<std::int64_t>(size_along(config.parallel.dp_shard), 1);
  if (!reads_weights_alone(config) && config.train.global_batch && ranks > *config.train.global_batch)
    problems.add({"parallel.dp_replicate", "parallel.dp_shard", "train.global_batch"},
                 fmt::format("{} cannot share {} per step: some ranks would have none", counted(ranks, "rank"),
                             counted(*config.train.global_batch, "sample")));
}

}  // namespace

void check_parallel(const TrainConfig& config, Problems& problems) {
  check_samples(config, problems);
  check_sizes(config.parallel, problems);
  check_rules(parallel_rules(), config, problems);
}

}  // namespace lockstep
