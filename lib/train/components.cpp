#include "train/components.hpp"

#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "tensor/arena.hpp"
#include "tensor/number_types.hpp"
#include "tensor/unit.hpp"

#include <algorithm>

namespace lockstep {

namespace {

bool lies_here(const Model& model, const std::string& name) {
  return std::ranges::any_of(model.parameters(), [&](const Parameter* parameter) { return parameter->name() == name; });
}

Component model_component(const Model& model, const CellState& cells) {
  Component component = declared_as_held(layouts_of(model), "model");
  component.collect = [&model, &cells] {
    StateTree state;
    for (const Parameter* parameter : model.parameters()) {
      state.add(parameter->name(), parameter->layout(), region_of(cells.saved(*parameter)));
    }
    for (const BlockDescription& block : model.architecture().blocks) {
      for (const LogicalTensor& tensor : block.tensors) {
        if (!tensor.alias_of.empty() && lies_here(model, tensor.alias_of))
          state.add_alias(tensor.name, tensor.alias_of);
      }
    }
    return state;
  };
  return component;
}

// How many updates bias corrections count is the trainer's to say: a value here would lie in as many cells as ranks
// share the state out, and the digest of equal state would depend on that.
Component optimizer_component(const Model& model, const CellState& cells) {
  Component component = declared_as_held(layouts_of(model), "optimizer");
  component.collect = [&model, &cells] {
    StateTree state;
    std::size_t most = 0;
    for (const Unit* unit : model.units()) most = std::max(most, unit->kept().size());
    for (std::size_t i = 0; i < most; ++i) {
      for (const Parameter* parameter : model.parameters()) {
        const std::vector<StateDescription>& kept = parameter->unit().kept();
        if (i >= kept.size()) continue;
        state.add(kept[i].name + "/" + parameter->name(), parameter->state_places()[i].layout,
                  region_of(cells.saved_state(*parameter, i)));
      }
    }
    return state;
  };
  return component;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> optional_number(const StateTree& state, const std::string& name) {
  const Json value = state.value(name);
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

std::int64_t integer(const StateTree& state, const std::string& name) {
  return integer_from<std::int64_t>(state.value(name), name);
}

/// A count that checkpoints of earlier versions do not carry: none then.
std::int64_t count_of(const StateTree& state, const std::string& name) {
  return state.has_value(name) ? integer(state, name) : 0;
}

Component trainer_component(TrainState& train_state, const Json& hf_config) {
  Component component = global_component("trainer");
  component.collect = [&train_state, config = std::make_shared<Json>(hf_config)] {
    StateTree state;
    state.set("step", train_state.step);
    state.set("tokens", train_state.tokens);
    state.set("skipped", train_state.skipped);
    state.set("skipped_in_a_row", train_state.skipped_in_a_row);
    state.set("loss", or_null(train_state.loss));
    state.set("eval_loss", or_null(train_state.eval_loss));
    state.set("best_eval_loss", or_null(train_state.best_eval_loss));
    state.set("evaluation", train_state.evaluation);
    if (train_state.best_counted || train_state.without_gain > 0) {
      state.set("best_counted", or_null(train_state.best_counted));
      state.set("without_gain", train_state.without_gain);
    }
    if (const LossHistory& losses = train_state.losses; losses != LossHistory()) {
      state.set("loss_averages", Json::array({or_null(losses.few), or_null(losses.many)}));
      state.set("last_losses", losses.last);
      state.set("losses_of", losses.of);
    }
    state.set("hf_config", *config);
    return state;
  };
  component.restore = [&train_state](const StateTree& state) {
    train_state.step = integer(state, "step");
    train_state.tokens = integer(state, "tokens");
    train_state.skipped = count_of(state, "skipped");
    train_state.skipped_in_a_row = count_of(state, "skipped_in_a_row");
    train_state.loss = optional_number(state, "loss");
    train_state.eval_loss = optional_number(state, "eval_loss");
    train_state.best_eval_loss = optional_number(state, "best_eval_loss");
    train_state.without_gain = count_of(state, "without_gain");
    if (state.has_value("best_counted")) train_state.best_counted = optional_number(state, "best_counted");
    train_state.losses = {};
    if (state.has_value("loss_averages")) {
      const Json averages = state.value("loss_averages");
      const auto average = [&](std::size_t i) {
        return averages.at(i).is_number() ? std::optional(averages.at(i).get<double>()) : std::nullopt;
      };
      train_state.losses = {.few = average(0),
                            .many = average(1),
                            .last = state.value("last_losses").get<std::vector<double>>(),
                            .of = state.has_value("losses_of") ? state.value("losses_of").get<std::string>() : ""};
    }
    if (state.has_value("evaluation")) train_state.evaluation = state.value("evaluation").get<std::string>();
  };
  return component;
}

Component data_component(TrainState& train_state) {
  Component component = global_component("data");
  component.collect = [&train_state] {
    StateTree state;
    state.set("epoch", train_state.position.epoch);
    state.set("sample", train_state.position.sample);
    if (train_state.uses) {
      Json uses = Json::array();
      for (const DatasetUse& use : *train_state.uses) uses.push_back({use.samples, use.tokens});
      state.set("uses", uses);
    }
    return state;
  };
  component.restore = [&train_state](const StateTree& state) {
    train_state.position = {integer(state, "epoch"), integer(state, "sample")};
    train_state.uses.reset();
    if (!state.has_value("uses")) return;
    train_state.uses.emplace();
    for (const Json& use : state.value("uses")) {
      const std::vector<std::int64_t> numbers = integers_from<std::int64_t>(use);
      if (numbers.size() != numbers_of_use)
        fail(ExitCode::input, "the use of a dataset has {} numbers", numbers.size());
      train_state.uses->push_back({numbers[0], numbers[1]});
    }
  };
  return component;
}

}  // namespace

std::vector<Layout> layouts_of(const Model& model) {
  std::vector<Layout> layouts;
  for (const Parameter* parameter : model.parameters()) layouts.push_back(parameter->layout());
  return layouts;
}

// Experts may be cut over ranks that hold the same of all else.
Component declared_as_held(const std::vector<Layout>& weights, std::string key) {
  Component component{.key = std::move(key), .collect = {}};
  std::vector<AxisName> alike = axes_held_alike(weights);
  if (alike.size() == weights.front().mesh.axes.size()) return component;
  component.pattern = Pattern::per_group;
  component.equal_along = std::move(alike);
  return component;
}

Component global_component(std::string key) {
  return {.key = std::move(key), .pattern = Pattern::global, .collect = {}};
}

Component compared_as(const CheckpointOptions& options, Component component) {
  if (component.pattern == Pattern::global) return component;
  switch (options.validation) {
    case Compared::none: component.validation = Validation::none; break;
    case Compared::quick: component.validation = Validation::quick; break;
    case Compared::rolling: component.validation = Validation::rolling; break;
    case Compared::tensor: component.validation = Validation::tensor; break;
    case Compared::full: component.validation = Validation::full; break;
  }
  return component;
}

std::vector<AxisName> axes_held_alike(const std::vector<Layout>& weights) {
  const Mesh& mesh = weights.front().mesh;
  std::vector<Layout> layouts = weights;
  if (!mesh.expert_axes.empty()) {  // of experts, which lie on some stages perhaps
    layouts.push_back(replicated({1}, DType::f32, mesh));
    layouts.back().splits = {{.axes = {expert_axis, expert_shard_axis}, .dim = 0}};
  }
  std::vector<AxisName> axes = replicated_axes(layouts.front());
  for (const Layout& layout : layouts) {
    const std::vector<AxisName> own = replicated_axes(layout);
    std::erase_if(axes, [&](const AxisName& axis) { return std::ranges::find(own, axis) == own.end(); });
  }
  return axes;
}

std::vector<Component> components_of(const Model& model, const CellState& cells, TrainState& train_state,
                                     const Json& hf_config) {
  return {model_component(model, cells), optimizer_component(model, cells), trainer_component(train_state, hf_config),
          data_component(train_state)};
}

Component loss_scale_component(TrainState& train_state) {
  Component component = global_component("loss_scale");
  component.required = false;  // a checkpoint of another precision is evaluated without
  component.collect = [&train_state] {
    StateTree state;
    state.set("scale", train_state.loss_scale.scale);
    state.set("good_steps", train_state.loss_scale.good_steps);
    state.set("overflows", train_state.loss_scale.overflows);
    return state;
  };
  component.restore = [&train_state](const StateTree& state) {
    train_state.loss_scale = {.scale = state.value("scale").get<double>(),
                              .good_steps = integer(state, "good_steps"),
                              .overflows = integer(state, "overflows")};
  };
  return component;
}

}  // namespace lockstep
