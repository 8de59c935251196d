#include "train/component_table.hpp"

#include "architecture/units.hpp"
#include "base/checked_cast.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "program/layout_text.hpp"
#include "report/table.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/inspected.hpp"
#include "train/components.hpp"
#include "train/nonfinite.hpp"
#include "train/plugin_callback.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep {

namespace {

struct PlannedTensor {
  Layout layout;
  bool trained = true;
  std::vector<Layout> kept = {};  // beside it
};

std::vector<PlannedTensor> weights_of(const TrainPlan& plan) {
  std::vector<ParameterPlan> parameters;
  std::map<std::string, LogicalTensor> by_name;
  for (const LogicalTensor& tensor : stored_tensors(plan.architecture)) {
    parameters.push_back({.name = tensor.name, .shape = view_of(tensor), .blocks = {}, .cut = tensor.cut});
    by_name[tensor.name] = tensor;
  }
  std::vector<PlannedTensor> weights;
  for (TensorLayout& tensor : tensor_layouts(plan.mesh, plan.model, parameters, plan.types, plan.programs.parts)) {
    const LogicalTensor& of = by_name.at(tensor.name);
    weights.push_back({std::move(tensor.layout), of.trained});
    if (!of.trained) continue;
    for (const StateDescription& kept : plan.types.state(of.update))
      weights.back().kept.push_back(state_layout(kept, weights.back().layout, of));
  }
  return weights;
}

/// Components with the layouts of their tensors, in the order in which they are saved.
class PlannedState {
 public:
  PlannedState(const TrainConfig& config, const TrainPlan& plan)
      : options_(config.checkpoint), weights_(weights_of(plan)) {
    std::vector<Layout> layouts;
    for (const PlannedTensor& weight : weights_) layouts.push_back(weight.layout);
    add(declared_as_held(layouts, "model"));
    for (const Layout& layout : layouts) add_tensor(layout);
    add(declared_as_held(layouts, "optimizer"));
    add_moments({});
    for (const char* const global : {"trainer", "data"}) add(global_component(global));
    for (const CallbackName name : config.train.callbacks)
      if (const auto of_plugin = plugin_index(name))
        for (const Component& component : declared_components(*Plugins::opened().callbacks().at(*of_plugin).table))
          add(component);
    if (scales_loss(config)) add(global_component("loss_scale"));
    if (plan.programs.local_options.axes.empty()) return;
    const AxisName& axis = plan.programs.local_options.axes.front();
    add(CellState::declared(axes_held_alike(layouts), axis));
    for (int cell = 0; cell < find_axis(plan.mesh, axis)->size; ++cell) add_cell({axis, {cell}});
  }

  const std::vector<StoredComponent>& components() const { return components_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

 private:
  void add(const Component& declared) {
    const Component component = compared_as(options_, declared);
    is_saved_ = is_saved(options_, component.key);
    if (!is_saved_) return;
    components_.push_back({component.key, component.pattern, component.equal_along, component.required,
                           component.validation, component.remap_policy});
  }
  void add_tensor(Layout layout) {
    if (!is_saved_) return;
    tensors_.push_back({.component = components_.back().key, .name = "", .layout = std::move(layout)});
  }
  void add_moments(const std::vector<Pin>& pins) {
    std::size_t most = 0;
    for (const PlannedTensor& weight : weights_) most = std::max(most, weight.kept.size());
    for (std::size_t i = 0; i < most; ++i) {
      for (const PlannedTensor& weight : weights_)
        if (i < weight.kept.size()) add_tensor(pinned(weight.kept[i], pins));
    }
  }
  void add_cell(const Pin& cell) {
    for (const PlannedTensor& weight : weights_)
      if (weight.trained) add_tensor(pinned(weight.layout, {cell}));
    add_moments({cell});
  }
  static Layout pinned(Layout layout, const std::vector<Pin>& pins) {
    layout.pins.insert(layout.pins.end(), pins.begin(), pins.end());
    return layout;
  }

  const CheckpointOptions& options_;
  bool is_saved_ = true;  // the component whose tensors are added
  std::vector<PlannedTensor> weights_;
  std::vector<StoredComponent> components_;
  std::vector<StoredTensor> tensors_;
};

struct Sharing {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::size_t least_holders = 0, most_holders = 0;  // of a box
  std::set<Rank> writers;
};

std::map<std::string, Sharing> sharing_of(const TrainConfig& config, const TrainPlan& plan, const Placement& placement,
                                          const PlannedState& state) {
  std::map<std::string, const StoredComponent*> by_key;
  for (const StoredComponent& component : state.components()) by_key[component.key] = &component;
  std::map<std::string, Sharing> result;
  std::vector<std::vector<Holding>> holdings;
  for (std::size_t i = 0; i < state.tensors().size(); ++i) {
    const StoredTensor& tensor = state.tensors()[i];
    const bool like_last = i > 0 && state.tensors()[i - 1].layout == tensor.layout;
    holdings.push_back(like_last ? holdings.back() : holders_of(tensor, *by_key.at(tensor.component), plan.ranks));
    Sharing& sharing = result[tensor.component];
    ++sharing.tensors;
    sharing.bytes += static_cast<std::uint64_t>(elements(tensor.layout.global) * size_of(tensor.layout.dtype));
    for (const Holding& holding : holdings.back()) {
      const std::size_t holders = holding.ranks.size();
      sharing.least_holders = sharing.most_holders == 0 ? holders : std::min(sharing.least_holders, holders);
      sharing.most_holders = std::max(sharing.most_holders, holders);
    }
  }
  std::optional<int> ranks_per_file;
  if (const std::int64_t ranks = config.checkpoint.ranks_per_file.ranks; ranks > 0)
    ranks_per_file = checked_cast<int>(ranks, "checkpoint.ranks_per_file", ExitCode::usage);
  const CheckpointPlan written = plan_checkpoint(state.tensors(), holdings, state.components(),
                                                 parts_of_ranks({plan.mesh, placement.nodes, {}}, ranks_per_file));
  for (const WriteItem& piece : written.pieces)
    result[written.tensors[piece.tensor].component].writers.insert(piece.writer);
  return result;
}

std::string on_other_ranks(const StoredComponent& component) {
  if (component.remap_policy == Remap::drop) return "kept if cells are equal, else dropped";
  if (component.remap_policy == Remap::redistribute) return "redistributed over all cells";
  return component.pattern == Pattern::global ? "unchanged, on all ranks" : "by tensor name, boxes of the rank";
}

}  // namespace

std::string component_table(const TrainConfig& config, const TrainPlan& plan, const Placement& placement) {
  const PlannedState state(config, plan);
  std::map<std::string, Sharing> sharing = sharing_of(config, plan, placement, state);
  Table table({{"component"},
               {"tensors", Table::Align::right},
               {"bytes", Table::Align::right},
               {"shared"},
               {"cells", Table::Align::right},
               {"holders", Table::Align::right},
               {"writers", Table::Align::right},
               {"compared"},
               {"on other ranks"}});
  for (const StoredComponent& component : state.components()) {
    Sharing& of = sharing[component.key];
    if (of.tensors == 0) {                             // values: all ranks have them
      const bool own = cell_owned(component.pattern);  // of each rank
      of.least_holders = of.most_holders = own ? 1 : static_cast<std::size_t>(plan.ranks);
      for (Rank rank = 0; rank < (own ? plan.ranks : 1); ++rank) of.writers.insert(rank);
    }
    const std::size_t cells =
        cells_of(
            {.key = component.key, .pattern = component.pattern, .equal_along = component.equal_along, .collect = {}},
            {plan.mesh, placement.nodes, {}})
            .size();
    table.add({component.key, fmt::format("{}", of.tensors), of.bytes == 0 ? "values" : human_bytes(of.bytes),
               pattern_text(component), fmt::format("{}", cells),
               of.least_holders == of.most_holders ? fmt::format("{}", of.most_holders)
                                                   : fmt::format("{}-{}", of.least_holders, of.most_holders),
               fmt::format("{}", of.writers.size()),
               of.most_holders > 1 ? std::string(name_of(component.validation)) : "no: one holder",
               on_other_ranks(component)});
  }
  return fmt::format("components of a checkpoint by {}: {}\n{}", counted(plan.ranks, "rank"), to_text(plan.mesh),
                     table.text());
}

}  // namespace lockstep
