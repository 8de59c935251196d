#include "program/dry_run.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "program/memory_estimate.hpp"
#include "program/pipeline_schedule.hpp"
#include "program/simulate.hpp"
#include "program/verify.hpp"
#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace lockstep {

namespace {

class Rows {
 public:
  void section(std::string name) { section_ = std::move(name); }
  void count(std::string key, std::string label, std::int64_t value) {
    rows_.push_back({section_, std::move(key), std::move(label), value, fmt::to_string(value)});
  }
  void bytes(std::string key, std::string label, std::int64_t value) {
    rows_.push_back({section_, std::move(key), std::move(label), value, human_bytes(value)});
  }
  void row(Row row) {
    row.section = section_;
    rows_.push_back(std::move(row));
  }
  std::vector<Row> take() && { return std::move(rows_); }

 private:
  std::string section_;
  std::vector<Row> rows_;
};

void mesh_rows(Rows& rows, const Mesh& mesh) {
  rows.section("mesh");
  rows.count("ranks", "ranks", world_size(mesh));
  for (const Axis& axis : mesh.axes) rows.count(axis.name, axis.name, axis.size);
  for (const Axis& axis : mesh.expert_axes)
    if (std::ranges::find(mesh.axes, axis.name, &Axis::name) == mesh.axes.end() && axis.size > 1)
      rows.count(axis.name, axis.name, axis.size);
}

/// "dp_replicate 1, dp_shard 0, node 2", and where it is another one "launcher's rank 5".
std::string coordinates_of(const Mesh& mesh, const Placement& placement, Rank rank) {
  const auto& [nodes, launched] = placement;
  const auto index = static_cast<std::size_t>(rank);
  std::vector<std::string> parts;
  for (const Axis& axis : mesh.axes)
    if (axis.size > 1) parts.push_back(fmt::format("{} {}", axis.name, coordinate(mesh, rank, axis.name)));
  if (!nodes.empty()) parts.push_back(fmt::format("node {}", nodes[index]));
  if (!launched.empty() && launched[index] != rank) parts.push_back(fmt::format("launcher's rank {}", launched[index]));
  return join(parts, ", ");
}

void rank_rows(Rows& rows, const DryRunFacts& facts, const StepProgram& program) {
  constexpr Rank first_ranks = 8;
  const int ranks = world_size(facts.mesh);
  if (ranks == 1) return;
  rows.section("ranks");
  const auto add = [&](std::string key, std::string label, std::string text) {
    rows.row({"", std::move(key), std::move(label), text, text});
  };
  for (Rank rank = 0; rank < std::min(ranks, first_ranks); ++rank)
    add(fmt::to_string(rank), fmt::format("rank {}", rank), coordinates_of(facts.mesh, facts.placement, rank));
  if (ranks > first_ranks)
    add(fmt::to_string(ranks - 1), fmt::format("… rank {}", ranks - 1),
        coordinates_of(facts.mesh, facts.placement, ranks - 1));
  if (program.classes.size() == 1) return;
  for (std::size_t i = 0; i < program.classes.size(); ++i)
    add(fmt::format("class_{}", i), "same program", "ranks " + to_text(program.classes[i].ranks));
}

void batch_rows(Rows& rows, const DryRunFacts& facts) {
  const BatchPlan& batch = facts.batch;
  rows.section("batch");
  rows.count("global_batch_samples", "global batch, samples", batch.global_batch);
  const std::int64_t most = samples_of(batch, 0).count;
  const std::int64_t least = samples_of(batch, batch.ranks - 1).count;
  rows.row({"", "rank_samples_max", "samples per rank", most,
            most == least ? fmt::to_string(most) : fmt::format("{} or {}", most, least)});
  rows.count("micro_batch_samples", "micro-batch, samples", batch.micro_batch);
  rows.count("accumulation", "micro-batches a step", batch.accumulation);
  rows.count("length_tokens", "tokens per sample", facts.length);
  rows.count("step_tokens", "tokens per step", batch.global_batch * facts.length);
}

/// Where cells of ranks train apart.
void local_rows(Rows& rows, const Catalogue& programs) {
  const LocalOptions& local = programs.local_options;
  if (local.axes.empty()) return;
  const int cells = cell_count(programs.local);
  const std::int64_t ranks = world_size(programs.local.mesh) / cells;
  rows.section("local steps");
  rows.row({"", "cells", "cells", std::int64_t{cells},
            fmt::format("{} of {}, along {}", cells, counted(ranks, "rank"), join(local.axes, "+"))});
  rows.count("start_step", "from step", local.start_step);
  rows.row({"", "period", "weights averaged", local.period, "every " + counted(local.period, "step")});
}

void model_rows(Rows& rows, const DryRunFacts& facts, const ModelPlan& plan) {
  rows.section("model");
  rows.row({"", "parameters", "parameters", facts.parameters, human_count(static_cast<double>(facts.parameters))});
  if (facts.frozen_parameters > 0)
    rows.row({"", "frozen_parameters", "frozen", facts.frozen_parameters,
              human_count(static_cast<double>(facts.frozen_parameters))});
  rows.count("blocks", "blocks", static_cast<std::int64_t>(plan.blocks.size()));
  rows.count("units", "units", static_cast<std::int64_t>(plan.units.size()));
}

/// The memory of the class of ranks that needs most, the first of several, and what it does then.
struct Peak {
  MemoryUse use;
  std::string at;
};

Peak peak_of(const StepProgram& program, Arena arena) {
  Peak peak;
  for (const RankClass& ranks : program.classes) {
    const MemoryUse use = memory_of(ranks, arena);
    if (use.peak_action < 0 || (!peak.at.empty() && use.peak_bytes <= peak.use.peak_bytes)) continue;
    peak = {use, to_text(program, ranks.actions[static_cast<std::size_t>(use.peak_action)])};
  }
  return peak;
}

/// "layer.0-layer.3", "layer.4 without attention+matmul": blocks that are recomputed, in runs that keep the same.
std::vector<std::string> runs_of(const StepProgram& program, const std::set<int>& blocks) {
  std::vector<std::string> runs;
  for (auto first = blocks.begin(); first != blocks.end();) {
    const KeepSet keeps = keeps_of(program, *first);
    auto last = first;
    auto next = std::next(first);
    for (; next != blocks.end() && *next == *last + 1 && keeps_of(program, *next) == keeps; ++next) last = next;
    const std::string& name = program.block_names[static_cast<std::size_t>(*first)];
    runs.push_back(last == first ? name
                                 : fmt::format("{}-{}", name, program.block_names[static_cast<std::size_t>(*last)]));
    if (!keeps.empty()) runs.back() += " without " + keeps.text();
    first = next;
  }
  return runs;
}

/// "97: 40 wholly, 57 without attention": the same where there are many runs.
std::string counts_of(const StepProgram& program, const std::set<int>& blocks) {
  std::map<std::size_t, int> counts;  // by KeepSet::index
  for (const int block : blocks) ++counts[keeps_of(program, block).index()];
  std::vector<std::string> parts;
  for (const auto& [index, count] : counts)
    parts.push_back(index == 0 ? fmt::format("{} fully", count)
                               : fmt::format("{} without {}", count, KeepSet::at(index).text()));
  return fmt::format("{}: {}", blocks.size(), join(parts, ", "));
}

/// Of the training program: what is computed again, and the most that activations of a rank take.
void recompute_rows(Rows& rows, const ModelPlan& plan, const StepProgram& program) {
  std::set<int> blocks;
  double again = 0, forward = 0;
  std::int64_t most = 0;
  for (const RankClass& ranks : program.classes) {
    for (const Action& action : ranks.actions)
      if (action.op == Op::recompute) blocks.insert(action.subject.index);
    most = std::max(most, activations_of(ranks).peak_bytes);
  }
  if (blocks.empty()) return;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    forward += plan.blocks[i].forward_flops;
    const int block = static_cast<int>(i);
    if (blocks.contains(block)) again += recomputation_of(plan.blocks[i], keeps_of(program, block)).flops;
  }
  constexpr std::size_t most_runs = 6;  // that one reads
  const std::vector<std::string> runs = runs_of(program, blocks);
  rows.section("recompute");
  rows.row({"", "recomputed_blocks", "recomputed", join(runs, "; "),
            runs.size() > most_runs ? counts_of(program, blocks) : join(runs, "; ")});
  const double share = forward > 0 ? again / forward : 0;
  rows.row(
      {"", "recomputed_share", "recomputed work", share, fmt::format("{:.1f} % of the forward pass", 100 * share)});
  rows.bytes("activation_peak_bytes", "activation peak", most);
}

/// How much of what blocks keep goes to host memory, of the class where most does.
void stash_row(Rows& rows, const StepProgram& program) {
  struct Count {
    std::int64_t stashes = 0, bytes = 0;
    void add(const Slot& slot) {
      ++stashes;
      bytes += slot.bytes;
    }
  };
  Count going, all;
  for (const RankClass& ranks : program.classes) {
    Count gone, kept;
    for (const Slot& slot : ranks.slots) {
      if (slot.kind == SlotKind::host_stash) gone.add(slot);
      if (slot.kind == SlotKind::stash && slot.bytes > 0) kept.add(slot);
    }
    if (gone.bytes > going.bytes) std::tie(going, all) = std::tie(gone, kept);
  }
  if (going.stashes == 0) return;
  rows.row({"", "offloaded_stash_bytes", "offloaded activations", going.bytes,
            fmt::format("{} of {}, in {} of {} pairs of block and micro-batch", human_bytes(going.bytes),
                        human_bytes(all.bytes), going.stashes, all.stashes)});
}

/// Of what is offloaded.
void host_memory_rows(Rows& rows, const StepProgram& program) {
  const auto [use, at] = peak_of(program, Arena::host);
  if (use.peak_bytes == 0) return;
  rows.section("host memory per rank");
  const auto row = [&, &bytes = use.bytes](SlotKind kind, const char* key, const char* label) {
    if (const auto found = bytes.find(kind); found != bytes.end() && found->second > 0)
      rows.bytes(key, label, found->second);
  };
  row(SlotKind::master, "host_master_bytes", "master weights");
  row(SlotKind::compute_copy, "host_compute_copy_bytes", "compute copy");
  row(SlotKind::gradient, "host_gradient_bytes", "gradients");
  row(SlotKind::optimizer_state, "host_optimizer_state_bytes", "optimizer state");
  row(SlotKind::host_stash, "host_activation_bytes", "activations");
  stash_row(rows, program);
  rows.bytes("host_peak_bytes", "peak", use.peak_bytes);
}

void memory_rows(Rows& rows, const Catalogue& programs, const DryRunFacts& facts) {
  const auto [use, at] = peak_of(programs.train, Arena::device);
  const auto of = [&bytes = use.bytes](SlotKind kind) {
    const auto found = bytes.find(kind);
    return found == bytes.end() ? 0 : found->second;
  };
  rows.section("memory per rank");
  rows.bytes("master_bytes", "master weights", of(SlotKind::master));
  rows.bytes("compute_copy_bytes", "compute copy", of(SlotKind::compute_copy));
  rows.bytes("gradient_bytes", "gradients", of(SlotKind::gradient) + of(SlotKind::step_gradient));
  rows.bytes("optimizer_state_bytes", "optimizer state", of(SlotKind::optimizer_state));
  if (use.bytes.contains(SlotKind::gathered))
    rows.bytes("gathered_bytes", "gathered weights", of(SlotKind::gathered) + of(SlotKind::kept_weights));
  if (use.bytes.contains(SlotKind::local_gradient) || use.bytes.contains(SlotKind::cast_gradient))
    rows.bytes("local_gradient_bytes", "gradient reduction",
               of(SlotKind::local_gradient) + of(SlotKind::cast_gradient) + of(SlotKind::shard_gradient));
  if (use.bytes.contains(SlotKind::fetched_weights) || use.bytes.contains(SlotKind::fetched_state))
    rows.bytes("fetched_bytes", "fetched from host", of(SlotKind::fetched_weights) + of(SlotKind::fetched_state));
  rows.bytes("activation_bytes", "activations", of(SlotKind::stash) + of(SlotKind::fetched_stash) + of(SlotKind::kept));
  if (use.bytes.contains(SlotKind::deferred))
    rows.bytes("deferred_bytes", "backward, weight half", of(SlotKind::deferred));
  rows.bytes("buffer_bytes", "buffers",
             of(SlotKind::boundary) + of(SlotKind::boundary_gradient) + of(SlotKind::peer_gradient) +
                 of(SlotKind::workspace) + of(SlotKind::shared));
  if (std::int64_t save = 0; !programs.averaging.classes.empty()) {
    for (const RankClass& ranks : programs.averaging.classes) save = std::max(save, bytes_to_save_averages(ranks));
    rows.bytes("save_bytes", "while saving averages", save);
  }
  if (facts.load_bytes > 0) rows.bytes("load_bytes", "while loading", facts.load_bytes);
  if (facts.snapshot_bytes > 0) rows.bytes("snapshot_bytes", "background saves, extra", facts.snapshot_bytes);
  rows.bytes("peak_bytes", "peak", use.peak_bytes);
  rows.row({"", "peak_action", "reached at", at, at});
  host_memory_rows(rows, programs.train);
}

/// What the time line says, where only blocks take time.
void simulation_rows(Rows& rows, const ModelPlan& plan, const StepProgram& program) {
  const Timeline timeline = simulate(program, block_costs(plan));
  std::int64_t peak = 0;
  for (const RankTimeline& times : timeline.ranks) peak = std::max(peak, times.peak_bytes);
  const double share = bubble_share(timeline);
  rows.section("simulation");
  rows.row(
      {"", "bubble_share", "bubble", share, fmt::format("{:.1f} % of a step, without transfer times", 100 * share)});
  rows.bytes("simulated_peak_bytes", "peak", peak);
  const auto stall = find_serial_stall(program);
  rows.row({"", "serial_issue_safe", "one lane suffices", stall ? "no" : "yes",
            stall ? fmt::format("no: rank {} would wait for ever at {}", stall->rank,
                                to_text(program, program.of(stall->rank)[static_cast<std::size_t>(stall->action)]))
                  : "yes"});
}

void work_rows(Rows& rows, const DryRunFacts& facts) {
  rows.section("work");
  const double step_tokens = static_cast<double>(facts.batch.global_batch * facts.length);
  const double step_flops = facts.flops_per_token * step_tokens;
  const double run_tokens = static_cast<double>(facts.samples) * static_cast<double>(facts.length);
  rows.row({"", "token_flops", "FLOPs per token", facts.flops_per_token, human_count(facts.flops_per_token)});
  rows.row({"", "step_flops", "FLOPs per step", step_flops, human_count(step_flops)});
  if (facts.steps == 0) return;  // they follow from data that are not there
  const double run_flops = facts.flops_per_token * run_tokens;
  rows.row({"", "run_tokens", "tokens of the run", run_tokens, human_count(run_tokens)});
  rows.row({"", "run_flops", "FLOPs of the run", run_flops, human_count(run_flops)});
}

void checkpoint_rows(Rows& rows, const DryRunFacts& facts) {
  rows.section("checkpoint");
  rows.bytes("weight_bytes", "weights", facts.weight_bytes);
  rows.bytes("optimizer_state_bytes", "optimizer state", facts.optimizer_state_bytes);
  rows.bytes("total_bytes", "total", facts.weight_bytes + facts.optimizer_state_bytes);
}

}  // namespace

std::vector<Row> dry_run(const DryRunFacts& facts, const ModelPlan& plan, const Catalogue& programs) {
  Rows rows;
  mesh_rows(rows, facts.mesh);
  rank_rows(rows, facts, programs.train);
  batch_rows(rows, facts);
  local_rows(rows, programs);
  model_rows(rows, facts, plan);
  memory_rows(rows, programs, facts);
  recompute_rows(rows, plan, programs.train);
  simulation_rows(rows, plan, programs.train);
  work_rows(rows, facts);
  checkpoint_rows(rows, facts);
  return std::move(rows).take();
}

std::vector<Row> brief(const std::vector<Row>& rows) {
  static const std::set<std::string, std::less<>> keys{"architecture",
                                                       "dropout",
                                                       "attention",
                                                       "tokenizer",
                                                       "dataset",
                                                       "epochs",
                                                       "packing",
                                                       "evaluation_packing",
                                                       "ranks",
                                                       "global_batch_samples",
                                                       "micro_batch_samples",
                                                       "accumulation",
                                                       "parameters",
                                                       "peak_bytes",
                                                       "peak_action",
                                                       "step_flops",
                                                       "run_tokens",
                                                       "total_bytes",
                                                       "host_peak_bytes",
                                                       "run_hours",
                                                       "hours_unknown",
                                                       "node_memory_bytes",
                                                       "rank_memory_bytes",
                                                       "device_memory_bytes",
                                                       "device_tensor_bytes",
                                                       "device_workspace_bytes",
                                                       "device_communicator_bytes",
                                                       "device_context_bytes",
                                                       "device_waits",
                                                       "checkpoints_on_disk_bytes",
                                                       "cells",
                                                       "recomputed_blocks"};
  std::vector<Row> kept;
  const auto axes = std::ranges::count_if(
      rows, [](const Row& row) { return row.section == "mesh" && row.key != "ranks" && row.text != "1"; });
  const bool stages = std::ranges::find(rows, pipeline_axis, &Row::key) != rows.end();
  const bool costs = std::ranges::find(rows, "cost", &Row::section) != rows.end();  // then a screen has less room
  std::ranges::copy_if(rows, std::back_inserter(kept), [&](const Row& row) {
    if (costs && (row.key == "peak_action" || row.key == "total_bytes")) return false;
    if (stages && row.key == "bubble_share") return true;
    const auto begins = [&](std::string_view start) { return row.key.starts_with(start); };
    if (row.section == "data" && (begins("dataset_") || begins("label_share") || begins("cut_documents"))) return true;
    return row.section == "mesh" || keys.contains(row.key) || (axes > 1 && row.section == "ranks" && row.key < "4");
  });
  return kept;
}

std::string to_text(const std::vector<Row>& rows) {
  Table table({{"", Table::Align::left}, {"", Table::Align::left}});
  std::string section;
  for (const Row& row : rows) {
    if (row.section != section) table.add({row.section, ""});
    section = row.section;
    table.add({"  " + row.label, row.text});
  }
  return table.text();
}

Json to_json(const std::vector<Row>& rows) {
  Json json = Json::object();
  for (const Row& row : rows) {
    std::string section = row.section;
    std::replace(section.begin(), section.end(), ' ', '_');
    std::visit([&](const auto& value) { json[section][row.key] = value; }, row.value);
  }
  return json;
}

}  // namespace lockstep
