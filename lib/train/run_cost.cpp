#include "train/run_cost.hpp"

#include "base/rounding.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "config/log_check.hpp"
#include "engine/engine.hpp"
#include "train/memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

namespace lockstep {

namespace {

constexpr double seconds_per_hour = 3600;
constexpr std::int64_t bytes_per_gib = std::int64_t{1} << 30;

Row cost_row(std::string key, std::string label, decltype(Row::value) value, std::string text) {
  return {.section = "cost",
          .key = std::move(key),
          .label = std::move(label),
          .value = std::move(value),
          .text = std::move(text)};
}

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

std::string hours_text(double hours) { return human_seconds(hours * seconds_per_hour); }

/// Steps at which checkpoint.every in steps saves, or the last one; other cadences may save at any step.
bool may_be_saved(const CheckpointOptions& checkpoint, std::int64_t step, std::int64_t steps) {
  if (step > steps) return false;
  const bool by_steps_alone = checkpoint.every == Cadence{.steps = checkpoint.every.steps} && !checkpoint.interval;
  if (!by_steps_alone || (checkpoint.at_end && step == steps)) return true;
  return checkpoint.every.steps > 0 && step % checkpoint.every.steps == 0;
}

/// Saves that checkpoint.keep_every and checkpoint.pinned keep.
std::int64_t kept_by_step(const CheckpointOptions& checkpoint, std::int64_t steps) {
  std::set<std::int64_t> pinned;
  for (const std::int64_t step : checkpoint.pinned)
    if (may_be_saved(checkpoint, step, steps) && (!checkpoint.keep_every || step % *checkpoint.keep_every != 0))
      pinned.insert(step);
  std::int64_t count = std::ssize(pinned);
  if (!checkpoint.keep_every) return count;
  const std::int64_t every = *checkpoint.keep_every;
  const bool by_steps_alone = checkpoint.every == Cadence{.steps = checkpoint.every.steps} && !checkpoint.interval;
  if (!by_steps_alone) return count + steps / every;
  if (checkpoint.every.steps > 0) count += steps / std::lcm(every, checkpoint.every.steps);
  const bool last_counts = checkpoint.every.steps > 0 && steps % checkpoint.every.steps == 0;
  return count + (checkpoint.at_end && steps % every == 0 && !last_counts ? 1 : 0);
}

/// Bytes of one checkpoint, with the state of cells that train apart.
std::int64_t checkpoint_bytes(const TrainConfig& config, const TrainPlan& plan) {
  const std::int64_t bytes = plan.weight_bytes() + (is_saved(config.checkpoint, "optimizer") ? plan.state_bytes() : 0);
  const bool apart = !plan.programs.averaging.classes.empty() && is_saved(config.checkpoint, "local");
  return apart ? bytes * (1 + cell_count(plan.programs.local)) : bytes;
}

struct Hours {
  double hours = 0;
  std::string basis;  // how they are known
};

std::optional<Hours> hours_of(const TrainConfig& config, const TrainPlan& plan, std::optional<double> step_s) {
  const auto steps = static_cast<double>(plan.length.steps);
  if (plan.length.steps == 0) return std::nullopt;
  if (step_s)
    return Hours{steps * *step_s / seconds_per_hour, fmt::format("measured {} per step", human_seconds(*step_s))};
  const std::optional<double> peak = peak_flops_per_s(config);
  if (!peak) return std::nullopt;
  const double tokens = steps * static_cast<double>(plan.batch.global_batch * config.data.sequence_length);
  const double utilization = config.utilization.value();
  return Hours{
      assumed_hours(plan.flops_per_token * tokens, *peak, utilization, plan.ranks),
      fmt::format("assumes {:g} % utilisation (--utilization) of {:g} TFLOP/s per rank ({})", 100 * utilization,
                  *peak / 1e12, config.log.peak_tflops ? "log.peak_tflops" : "log.peak_device")};
}

std::vector<Row> hours_rows(const TrainPlan& plan, const Placement& placement, const std::optional<Hours>& hours) {
  if (!hours) {
    const std::string why = plan.length.steps == 0 ? "depend on the number of steps, which needs the dataset"
                                                   : "need log.peak_tflops or log.peak_device, or train --calibrate";
    return {cost_row("hours_unknown", "hours", why, why)};
  }
  const std::set<int> nodes(placement.nodes.begin(), placement.nodes.end());
  const double rank_hours = hours->hours * plan.ranks;
  const double node_hours = hours->hours * static_cast<double>(nodes.size());
  const std::string all =
      nodes.empty() ? fmt::format("{:.4g} rank hours", rank_hours) : fmt::format("{:.4g} node hours", node_hours);
  std::vector<Row> rows{cost_row("run_hours", "training steps", hours->hours,
                                 fmt::format("{}, {}: {}", hours_text(hours->hours), all, hours->basis)),
                        cost_row("rank_hours", "rank hours", rank_hours, fmt::format("{:.4g}", rank_hours))};
  if (!nodes.empty())
    rows.push_back(cost_row("node_hours", "node hours", node_hours,
                            fmt::format("{:.4g} on {}", node_hours, counted(std::ssize(nodes), "node"))));
  return rows;
}

Row memory_row(const TrainPlan& plan, const Placement& placement) {
  std::vector<std::int64_t> needed(static_cast<std::size_t>(plan.ranks));
  for (const RankClass& ranks : plan.programs.train.classes) {
    const std::int64_t bytes = memory_needed(plan, ranks.ranks.front());
    for (const Rank rank : ranks.ranks) needed[static_cast<std::size_t>(rank)] = bytes;
  }
  const auto most = std::ranges::max_element(needed);
  const std::string snapshot = bytes_text(plan.snapshot_bytes(static_cast<Rank>(most - needed.begin())));
  const std::string of_saves = snapshot == bytes_text(0) ? ""
                               : snapshot == bytes_text(*most)
                                   ? ", all of it for background saves,"
                                   : fmt::format(" (with {} for background saves)", snapshot);
  const std::string of_rank =
      fmt::format("{} planned{} and {} for the process", bytes_text(*most), of_saves, bytes_text(process_bytes));
  if (placement.nodes.empty()) {
    const std::int64_t bytes = *most + process_bytes;
    return cost_row("rank_memory_bytes", "memory of a rank", bytes,
                    fmt::format("{}: {}; --ranks-per-node gives --mem", bytes_text(bytes), of_rank));
  }
  const std::int64_t bytes = node_memory(needed, placement.nodes);
  std::map<int, std::int64_t> ranks_on;
  for (const int node : placement.nodes) ++ranks_on[node];
  const std::int64_t largest =
      std::ranges::max_element(ranks_on, {}, [](const auto& one) { return one.second; })->second;
  return cost_row(
      "node_memory_bytes", "memory of a node", bytes,
      fmt::format("--mem={}G for {}: each at most {}", bytes / bytes_per_gib, counted(largest, "rank"), of_rank));
}

/// The memory of NCCL and the groups of ranks that it connects, on the rank with the most of them.
Row communicator_row(const TrainPlan& plan) {
  std::int64_t most = 0;
  std::string groups;
  for (const RankClass& ranks : plan.programs.train.classes) {
    const std::int64_t bytes = communicator_memory(plan, ranks.ranks.front());
    if (bytes <= most) continue;
    most = bytes;
    groups = join(device_groups(plan.programs, ranks.ranks.front()), ", ");
  }
  return cost_row("device_communicator_bytes", "of NCCL (estimated)", most,
                  groups.empty() ? bytes_text(most) : fmt::format("{} for the groups {}", bytes_text(most), groups));
}

/// Of the rank that needs most, or waits most.
std::vector<Row> device_rows(const TrainPlan& plan) {
  std::int64_t tensors = 0;
  for (const RankClass& ranks : plan.programs.train.classes)
    tensors = std::max(tensors, device_memory_needed(plan, ranks.ranks.front()));
  Row of_nccl = communicator_row(plan);
  const std::int64_t communicators = std::get<std::int64_t>(of_nccl.value);
  int waits = 0;
  for (const RankClass& ranks : plan.programs.train.classes)
    waits = std::max(waits, device_waits(plan.programs.train, ranks));
  const std::int64_t context = plan.device->overhead.context_bytes, workspace = plan.device->overhead.workspace_bytes;
  const std::int64_t all = tensors + context + workspace + communicators;
  return {cost_row("device_memory_bytes", "memory of a device", all,
                   fmt::format("{} of the {} of {}", bytes_text(all), bytes_text(plan.device->memory_bytes),
                               plan.device->name)),
          cost_row("device_tensor_bytes", "of its tensors", tensors, bytes_text(tensors)),
          cost_row("device_workspace_bytes", "of its libraries", workspace, bytes_text(workspace)),
          std::move(of_nccl),
          cost_row("device_context_bytes", "of its context", context, bytes_text(context)),
          cost_row("device_waits", "waits for a device", std::int64_t{waits}, fmt::format("{} a step", waits))};
}

std::vector<Row> save_cost_rows(const TrainConfig& config, const TrainPlan& plan, const std::optional<Hours>& hours) {
  if (plan.length.steps == 0) return {};
  std::optional<double> epochs;
  if (plan.samples_per_epoch > 0)
    epochs = static_cast<double>(plan.samples_of_run(config)) / static_cast<double>(plan.samples_per_epoch);
  const SaveCounts counts = count_saves(config.checkpoint, plan.length.steps, epochs,
                                        hours ? std::optional(hours->hours) : std::nullopt, evaluates(config));
  const std::int64_t bytes = checkpoint_bytes(config, plan);
  const std::string others =
      counts.uncounted.empty() ? "" : fmt::format("; those of {} are not counted", counts.uncounted);
  return {cost_row("checkpoints_on_disk_bytes", "checkpoints on disk", counts.at_once * bytes,
                   fmt::format("at most {}: {} × {}", bytes_text(counts.at_once * bytes), counts.at_once,
                               bytes_text(bytes))),
          cost_row("checkpoints_written_bytes", "checkpoints written", counts.saves * bytes,
                   fmt::format("{} in {}{}", bytes_text(counts.saves * bytes), counted(counts.saves, "save"), others))};
}

}  // namespace

double assumed_hours(double run_flops, double peak_flops_per_s, double utilization, int ranks) {
  return run_flops / (peak_flops_per_s * utilization * ranks) / seconds_per_hour;
}

SaveCounts count_saves(const CheckpointOptions& checkpoint, std::int64_t steps, std::optional<double> epochs,
                       std::optional<double> hours, bool evaluates) {
  constexpr double slack = 1e-9;  // of a quotient that is whole
  SaveCounts counts;
  const Cadence& every = checkpoint.every;
  bool saves_last = false;
  if (every.steps > 0) {
    counts.saves += steps / every.steps;
    saves_last = steps % every.steps == 0;
  }
  if (every.epochs > 0) {
    if (!epochs) {
      counts.uncounted = "checkpoint.every in epochs";
    } else {
      const double times = *epochs / every.epochs;
      counts.saves += static_cast<std::int64_t>(std::floor(times + slack));
      saves_last = saves_last || std::abs(times - std::round(times)) < slack;
    }
  }
  const double interval_s = every.time.value > 0  ? every.time.value
                            : checkpoint.interval ? checkpoint.interval->time.value
                                                  : 0;
  if (checkpoint.interval && checkpoint.interval->automatic) {
    counts.uncounted = "checkpoint.interval auto";
  } else if (interval_s > 0) {
    if (hours)
      counts.saves += static_cast<std::int64_t>(std::floor(*hours * seconds_per_hour / interval_s + slack));
    else
      counts.uncounted = every.time.value > 0 ? "checkpoint.every by time" : "checkpoint.interval";
  }
  if (checkpoint.at_end && !saves_last) ++counts.saves;
  counts.saves = std::min(counts.saves, steps);
  const std::int64_t best = evaluates ? std::max<std::int64_t>(checkpoint.keep_best, 0) : 0;
  const std::int64_t kept = std::max<std::int64_t>(checkpoint.keep_last, 1) + best + kept_by_step(checkpoint, steps);
  counts.at_once = counts.uncounted.empty() ? std::min(counts.saves, kept + 1) : kept + 1;
  return counts;
}

std::int64_t node_memory(const std::vector<std::int64_t>& needed, const Nodes& nodes) {
  std::map<int, std::int64_t> sums;
  for (std::size_t rank = 0; rank < needed.size(); ++rank) sums[nodes[rank]] += needed[rank] + process_bytes;
  std::int64_t most = 0;
  for (const auto& [node, bytes] : sums) most = std::max(most, bytes);
  return ceil_div(most, bytes_per_gib) * bytes_per_gib;
}

std::vector<Row> cost_rows(const TrainConfig& config, const TrainPlan& plan, const Placement& placement,
                           std::optional<double> step_s) {
  const std::optional<Hours> hours = hours_of(config, plan, step_s);
  std::vector<Row> rows = hours_rows(plan, placement, hours);
  rows.push_back(memory_row(plan, placement));
  if (plan.device) std::ranges::move(device_rows(plan), std::back_inserter(rows));
  std::ranges::move(save_cost_rows(config, plan, hours), std::back_inserter(rows));
  return rows;
}

}  // namespace lockstep
