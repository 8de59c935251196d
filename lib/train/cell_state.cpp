#include "train/cell_state.hpp"

#include "base/error.hpp"
#include "comm/together.hpp"
#include "tensor/arena.hpp"
#include "train/components.hpp"

#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <utility>

namespace lockstep {

namespace {

constexpr const char* key = "local";

/// This rank's part of a parameter in a flat buffer of its unit, and the same of what is kept beside it.
at::Tensor part_of(const at::Tensor& flat, const Parameter& parameter) {
  return flat.narrow(0, parameter.shard_offset(), parameter.shard_elements());
}
at::Tensor part_of(const at::Tensor& flat, const StateSlot& kept) {
  return flat.narrow(0, kept.offset, elements(kept.box));
}

at::Tensor like(const at::Tensor& buffer, const Unit& unit) {
  try {
    return at::empty_like(buffer);
  } catch (c10::OutOfMemoryError& error) {  // of a device, with its numbers
    error.add_context("for the average of unit " + unit.name());
    throw;
  } catch (const std::exception&) {  // c10::Error and std::bad_alloc alike
    throw Error(
        ExitCode::resources,
        fmt::format(
            "cannot allocate memory for the average of unit {} in addition to the weights of this rank: out of memory",
            unit.name()),
        "start fewer ranks on this machine");
  }
}

}  // namespace

CellState::CellState(Model& model, const Mesh& mesh, Rank rank, LocalOptions options)
    : model_(model), options_(std::move(options)) {
  if (options_.axes.empty()) return;
  invariant(options_.axes.size() == 1, "cells lie along one axis of the mesh");
  cell_ = {options_.axes.front(), {coordinate(mesh, rank, options_.axes.front())}};
}

bool CellState::weights_apart(std::int64_t steps) const {
  return steps > 0 && training_step(options_, steps - 1) == TrainingStep::local;
}

bool CellState::state_apart(std::int64_t steps) const { return !options_.axes.empty() && steps > options_.start_step; }

void CellState::copy_beside(Copy what, Session& session) {
  together(session.world(), "copy the weights of this rank", [&] {
    for (const Unit* unit : model_.units()) {
      if (!unit->is_trained()) continue;
      Buffers& copy = beside_[unit];
      copy.master = like(unit->master(), *unit).copy_(unit->master());
      if (what == Copy::weights) continue;
      for (const at::Tensor& state : unit->state()) copy.state.push_back(like(state, *unit).copy_(state));
    }
  });
}

void CellState::show_average(Engine& engine, Session& session, std::int64_t step) {
  copy_beside(Copy::weights, session);
  what_ = Stash::own;
  std::vector<at::Tensor> weights;
  for (const Unit* unit : model_.units())
    if (unit->is_trained()) weights.push_back(unit->master());
  engine.average(weights, step);
  for (Unit* unit : model_.units()) unit->update_compute_copy();
}

void CellState::show_own() {
  for (const auto& [unit, copy] : beside_) unit->master().copy_(copy.master);
  for (Unit* unit : model_.units()) unit->update_compute_copy();
  drop();
}

void CellState::take_averages(Engine& engine, Session& session, std::int64_t step) {
  copy_beside(Copy::all, session);
  what_ = Stash::averages;
  std::vector<at::Tensor> buffers;
  for (const Unit* unit : model_.units()) {
    if (!unit->is_trained()) continue;
    const Buffers& copy = beside_.at(unit);
    if (weights_apart(step)) buffers.push_back(copy.master);
    buffers.insert(buffers.end(), copy.state.begin(), copy.state.end());
  }
  engine.average(buffers, step);
}

void CellState::drop() {
  beside_.clear();
  what_ = Stash::nothing;
}

at::Tensor CellState::saved(const Parameter& parameter) const {
  if (what_ != Stash::averages || !parameter.is_trained()) return parameter.master();
  return part_of(beside_.at(&parameter.unit()).master, parameter);
}

at::Tensor CellState::saved_state(const Parameter& parameter, std::size_t index) const {
  if (what_ != Stash::averages) return parameter.state()[index];
  return part_of(beside_.at(&parameter.unit()).state[index], parameter.state_places()[index]);
}

StateTree CellState::collect() {
  const bool saves = what_ == Stash::averages;  // then the model has its own
  if (!saves) {
    drop();
    what_ = Stash::loaded;
  }
  StateTree state;
  for (const Parameter* parameter : model_.parameters()) {
    if (!parameter->is_trained()) continue;
    const Unit& unit = parameter->unit();
    if (const auto [found, fresh] = beside_.try_emplace(&unit); fresh) {
      found->second.master = like(unit.master(), unit);
      for (const at::Tensor& buffer : unit.state()) found->second.state.push_back(like(buffer, unit));
    }
    const Buffers& loaded = beside_.at(&unit);
    const auto add = [&](std::string_view what, const Layout& layout, const at::Tensor& part) {
      Layout of_cell = layout;
      of_cell.pins.push_back(cell_);
      state.add(fmt::format("{}={}/{}/{}", cell_.axis, cell_.coordinates.front(), what, parameter->name()), of_cell,
                region_of(part));
    };
    add("weight", parameter->layout(), saves ? parameter->master() : part_of(loaded.master, *parameter));
    for (std::size_t i = 0; i < unit.kept().size(); ++i) {
      const StateSlot& kept = parameter->state_places()[i];
      add(unit.kept()[i].name, kept.layout, saves ? parameter->state()[i] : part_of(loaded.state[i], kept));
    }
  }
  return state;
}

void CellState::restore() {
  for (const Unit* unit : model_.units()) {
    const auto found = beside_.find(unit);
    if (found == beside_.end()) continue;
    unit->master().copy_(found->second.master);
    for (std::size_t i = 0; i < unit->state().size(); ++i) unit->state()[i].copy_(found->second.state[i]);
  }
}

Component CellState::left_out() {
  return {.key = key,
          .required = false,
          .remap_policy = Remap::drop,
          .collect = [] { return StateTree(); },
          .dropped = "weights and optimizer state are their averages over those cells"};
}

Component CellState::declared(std::vector<AxisName> alike, const AxisName& axis) {
  Component component = left_out();
  component.pattern = Pattern::per_group;
  component.equal_along = std::move(alike);
  std::erase(component.equal_along, axis);
  return component;
}

Component CellState::component() {
  if (options_.axes.empty()) return left_out();
  Component component = declared(axes_held_alike(layouts_of(model_)), cell_.axis);
  component.collect = [this] { return collect(); };
  component.restore = [this](const StateTree&) { restore(); };
  return component;
}

}  // namespace lockstep
