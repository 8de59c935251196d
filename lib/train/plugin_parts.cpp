#include "train/plugin_parts.hpp"

#include "base/error.hpp"
#include "plugin/plugins.hpp"

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

template <class Entry>
std::string name_of(std::string_view what, const PluginEntry<Entry>& entry) {
  return fmt::format("the {} {} of {}", what, entry.table->name, entry.plugin->file());
}

template <class M>
RowLoss::Rows<M> rows_of(const PluginEntry<lockstep_loss>& entry,
                         const char* (*of_rows)(const lockstep_value*, std::int64_t, std::int64_t, const M*,
                                                const std::int32_t*, double*, M*)) {
  return [entry, of_rows](std::int64_t rows, std::int64_t vocabulary, const M* logits, const std::int32_t* labels,
                          double* losses, M* derivative) {
    if (const char* const problem =
            of_rows(entry.plugin->values(), rows, vocabulary, logits, labels, losses, derivative))
      fail(ExitCode::input, "{} failed: {}", name_of("loss", entry), problem);
  };
}

}  // namespace

std::function<Stages(const ModelPlan&, const Pipeline&)> splitter_of_plugin(std::size_t index) {
  const PluginEntry<lockstep_splitter> entry = Plugins::opened().splitters().at(index);
  return [entry](const ModelPlan& plan, const Pipeline& pipeline) {
    std::vector<const char*> names;
    for (const BlockPlan& block : plan.blocks) names.push_back(block.name.c_str());
    const std::vector<std::int64_t> costs = costs_of(plan);
    std::vector<int> first(static_cast<std::size_t>(stage_count(pipeline)), -1);
    const std::string who = name_of("splitter", entry);
    const char* const problem = entry.table->split(entry.plugin->values(), static_cast<int>(names.size()), names.data(),
                                                   costs.data(), stage_count(pipeline), first.data());
    if (problem != nullptr) fail(ExitCode::usage, "{}: {}", who, problem);
    return stages_beginning_at(first, static_cast<int>(names.size()), who);
  };
}

const CustomSchedule& pipeline_schedule_of_plugin(std::size_t index) {
  static std::deque<CustomSchedule> made;  // by index: addresses stay
  while (made.size() <= index) {
    const PluginEntry<lockstep_pipeline_schedule> entry = Plugins::opened().pipeline_schedules().at(made.size());
    const lockstep_pipeline_schedule& table = *entry.table;
    const std::string who = name_of("schedule", entry);
    const auto passes = [entry, who](const Pipeline& pipeline, int rank) {
      const lockstep_pipeline said{pipeline.ranks, pipeline.chunks, pipeline.micro_batches};
      const std::size_t count = static_cast<std::size_t>(pipeline.chunks) *
                                static_cast<std::size_t>(pipeline.micro_batches) *
                                (entry.table->splits_backward != 0 ? 3 : 2);
      std::vector<lockstep_pass> given(count, {LOCKSTEP_FORWARD, -1, -1});
      if (const char* const problem = entry.table->order(entry.plugin->values(), &said, rank, given.data()))
        fail(ExitCode::usage, "{} has no order for {} ranks, {} stages per rank and {} micro-batches: {}", who,
             said.ranks, said.stages_per_rank, said.micro_batches, problem);
      std::vector<StagePass> order;
      for (const lockstep_pass& pass : given) {
        if (pass.kind < LOCKSTEP_FORWARD || pass.kind > LOCKSTEP_BACKWARD_WEIGHT)
          fail(ExitCode::usage, "{}: pass {} of rank {} has the unknown kind {}", who, order.size(), rank,
               static_cast<int>(pass.kind));
        order.push_back({static_cast<StagePass::Kind>(pass.kind), pass.stage, pass.micro_batch});
      }
      return order;
    };
    made.push_back({.name = table.name,
                    .who = who,
                    .placed_as_v = table.placement == LOCKSTEP_V,
                    .splits_backward = table.splits_backward != 0,
                    .chunks = table.stages_per_rank,
                    .passes = passes});
  }
  return made[index];
}

std::shared_ptr<const CustomPacking> packing_of_plugin(std::size_t index) {
  const PluginEntry<lockstep_packing> entry = Plugins::opened().packings().at(index);
  auto packing = std::make_shared<CustomPacking>();
  packing->who = name_of("packing", entry);
  packing->identity = entry.plugin->identity_of(entry.table->name, entry.table->version);
  packing->group = entry.table->group;
  packing->place = [entry, who = packing->who](std::span<const std::int64_t> costs, std::int64_t length) {
    std::vector<std::int64_t> rows(costs.size(), -1);
    const char* const problem = entry.table->place(entry.plugin->values(), static_cast<std::int64_t>(costs.size()),
                                                   costs.data(), length, rows.data());
    if (problem != nullptr) fail(ExitCode::usage, "{}: {}", who, problem);
    return rows;
  };
  return packing;
}

std::optional<RowLoss> plugin_loss(LossName name) {
  const auto index = plugin_index(name);
  if (!index) return {};
  const PluginEntry<lockstep_loss> entry = Plugins::opened().losses().at(*index);
  RowLoss loss{.f32 = rows_of<float>(entry, entry.table->rows_f32), .f64 = {}};
  if (entry.table->rows_f64 != nullptr) loss.f64 = rows_of<double>(entry, entry.table->rows_f64);
  return loss;
}

}  // namespace lockstep
