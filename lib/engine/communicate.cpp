// What an action exchanges with other ranks, and the memory of gradients that it takes for it.
#include "base/error.hpp"
#include "engine/run.hpp"
#include "tensor/arena.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

/// The slot of the kept weights that an action gathers; -1 if it gathers those of all ranks.
int kept_slot(const RankClass& ranks, const Action& action) {
  for (const std::vector<int>* slots : {&action.slots.reads, &action.slots.releases})
    for (const int slot : *slots)
      if (ranks.slots[static_cast<std::size_t>(slot)].kind == SlotKind::kept_weights) return slot;
  return -1;
}

}  // namespace

void Engine::communicate(Run& run, const Action& action, std::size_t position) {
  wait_for(run, action);
  const int lane = static_cast<int>(action.lane), group = transport_.group_along(action.group);
  Ticket& ticket = run.tickets[position];
  switch (action.op) {
    case Op::unshard: {
      Unit& unit = unit_of(action.subject);
      const at::Tensor whole =
          unit_memory(unit, unit.whole_length(), compute_type(unit.precision()), "gathered weights", unit.padding());
      const int lent = action.slots.acquires.front();
      run.slots.acquire(lent, {.input = {}, .value = whole});
      const DType dtype = compute_dtype(unit.precision());
      unit.lend_weights(whole, lent);
      if (const int slot = kept_slot(run.ranks, action); slot >= 0)
        ticket = transport_.all_gather(lane, group, region_of(kept_weights(run, unit, slot)), region_of(whole),
                                       unit.kept_map(), dtype);
      else
        ticket = transport_.all_gather(lane, group, region_of(own_shard(run, unit, action)), region_of(whole),
                                       unit.shard_map(), dtype);
      return;
    }
    case Op::reduce_scatter: {
      Unit& unit = unit_of(action.subject);
      const Region whole = give_up_gradient(run, unit, action);
      lend_step_gradient(run, unit, action);
      const auto [shard, into] = shard_of(run, unit, action);
      ticket = transport_.reduce_scatter(lane, group, whole, region_of(shard), unit.shard_map(), reduce_dtype_, into);
      return;
    }
    case Op::all_reduce: {
      Unit& unit = unit_of(action.subject);
      lend_step_gradient(run, unit, action);
      const Region gradient = region_of(unit.gradient());
      if (action.slots.releases.empty()) {
        ticket = transport_.all_reduce(lane, group, gradient, reduce_dtype_, Reduce::sum);
        return;
      }
      const Region own = unit.is_cut() ? region_of(run.slots.at(action.slots.releases.front()).value)
                                       : give_up_gradient(run, unit, action);
      ticket = transport_.all_reduce_into(lane, group, own, reduce_dtype_, gradient, run.into(unit, action));
      return;
    }
    case Op::average_weights:
      ticket = transport_.all_reduce(lane, group, region_of(unit_of(action.subject).master()),
                                     master_dtype(model_.precision()), Reduce::sum);
      return;
    case Op::reduce_norm: return reduce_norm(run, action);
    case Op::heartbeat: return heartbeat(run, action);
    case Op::reduce_loss: return reduce_loss(run, action);
    case Op::draw_tokens: return draw_tokens(run, action);
    case Op::forward:
    case Op::recompute:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::receive_forward:
    case Op::send_forward:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::reshard:
    case Op::finish_gradient:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::add_gradient:
    case Op::gradient_norm:
    case Op::clip:
    case Op::optimizer:
    case Op::finish_average:
    case Op::fetch_weights:
    case Op::offload_gradient:
    case Op::fetch_state:
    case Op::offload_state:
    case Op::offload_stash:
    case Op::fetch_stash: break;
  }
  fail(ExitCode::bug, "{} is not a collective operation", name_of(action.op));
}

void Engine::transfer(Run& run, const Action& action, std::size_t position) {
  wait_for(run, action);
  const int lane = static_cast<int>(action.lane), group = transport_.group_along(action.group);
  const std::vector<Rank>& members = transport_.members(group);
  const auto peer = std::ranges::find(members, *peer_of(run.program.mesh, session_.world().rank(), action));
  const auto other = static_cast<int>(peer - members.begin());
  if (action.subject.kind == Subject::Kind::unit) return exchange_gradient(run, action, position, group, other);
  const std::array<std::int64_t, 2> shape{
      ceil_div(run.rows_of[static_cast<std::size_t>(action.micro_batch)], std::int64_t{run.program.row_shares}),
      model_.config().channels};
  const auto options = device_options(model_.output_type());
  Ticket& ticket = run.tickets[position];
  if (!is_send(action.op)) {
    const at::Tensor memory = at::empty(shape, options);
    run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
    ticket = transport_.receive(lane, group, other, region_of(memory), static_cast<int>(action.peer_lane));
    return;
  }
  const SlotKind kind = action.op == Op::send_forward ? SlotKind::boundary : SlotKind::boundary_gradient;
  const SlotContent* computed = run.slots.find(kind, action.subject, action.micro_batch);
  if (computed == nullptr) run.stand_ins.push_back(at::zeros(shape, options));  // of a rank that failed
  ticket = transport_.send(lane, group, other, region_of(computed ? computed->value : run.stand_ins.back()));
}

void Engine::exchange_gradient(Run& run, const Action& action, std::size_t position, int group, int peer) {
  Unit& unit = unit_of(action.subject);
  if (!unit.gradient().defined())  // of a rank that failed
    run.stand_ins.push_back(at::zeros({unit.length()}, device_options(master_type(unit.precision()))));
  const at::Tensor& own = unit.gradient().defined() ? unit.gradient() : run.stand_ins.back();
  const int lane = static_cast<int>(action.lane);
  if (is_send(action.op)) {
    run.tickets[position] = transport_.send(lane, group, peer, region_of(own));
    return;
  }
  const at::Tensor memory = at::empty_like(own);
  run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
  run.tickets[position] = transport_.receive(lane, group, peer, region_of(memory), static_cast<int>(action.peer_lane));
}

void Engine::lend_gradient(Run& run, Unit& unit, int slot) {
  const bool local = run.slots.slot(slot).kind == SlotKind::local_gradient;
  const at::Tensor memory =
      unit_memory(unit, local ? unit.whole_length() : unit.length(), master_type(unit.precision()), "gradient",
                  local || !unit.is_cut() ? unit.padding() : 0);
  run.slots.acquire(slot, {.input = {}, .value = memory});
  if (local)
    unit.lend_local_gradient(memory, slot);
  else
    unit.lend_gradient(memory, slot);
}

void Engine::lend_step_gradient(Run& run, Unit& unit, const Action& action) {
  int slot = slot_among(run.ranks, action.slots.acquires, SlotKind::step_gradient);
  if (slot < 0 && !unit.gradient().defined())  // of a rank that failed before
    slot = slot_among(run.ranks, action.slots.writes, SlotKind::step_gradient);
  if (slot >= 0) lend_gradient(run, unit, slot);
}

void Engine::lend_gradients(Run& run, const Action& action) {
  const auto kind_of = [&](int slot) { return run.slots.slot(slot).kind; };
  for (const int slot : action.slots.acquires)
    if (kind_of(slot) == SlotKind::local_gradient || kind_of(slot) == SlotKind::step_gradient)
      lend_gradient(run, unit_of(run.slots.slot(slot).subject), slot);
  for (const int slot : action.slots.writes)
    if (kind_of(slot) == SlotKind::local_gradient)
      unit_of(run.slots.slot(slot).subject).resume_local_gradient(run.slots.at(slot).value, slot);
}

const at::Tensor& Engine::own_shard(Run& run, const Unit& unit, const Action& action) {
  const int slot = slot_among(run.ranks, action.slots.releases, SlotKind::fetched_weights);
  return slot < 0 ? unit.compute() : run.slots.at(slot).value;
}

const at::Tensor& Engine::kept_weights(Run& run, const Unit& unit, int slot) {
  if (!run.slots.holds(slot))  // a rank that failed takes part with what there is
    run.slots.acquire(slot,
                      {.input = {}, .value = at::empty({unit.kept_map().shard_length}, unit.compute().options())});
  return run.slots.at(slot).value;
}

Region Engine::give_up_gradient(Run& run, Unit& unit, const Action& action) {
  const int slot = action.slots.releases.front();
  const bool cast = run.slots.slot(slot).kind == SlotKind::cast_gradient;
  if (!run.slots.holds(slot)) {  // a rank that failed takes part with what there is
    if (cast)
      run.slots.acquire(
          slot,
          {.input = {}, .value = unit_memory(unit, unit.whole_length(), scalar_type(reduce_dtype_), "cast gradient")});
    else
      lend_gradient(run, unit, slot);
  }
  if (!cast) unit.end_local_gradient(slot);
  return region_of(run.slots.at(slot).value);  // the slot holds it until the transport has done with it
}

std::pair<at::Tensor, SumInto> Engine::shard_of(Run& run, const Unit& unit, const Action& action) const {
  int slot = slot_among(run.ranks, action.slots.acquires, SlotKind::shard_gradient);
  const bool begins = slot >= 0;  // a shard that is not yet the sum over all ranks
  if (!begins) slot = slot_among(run.ranks, action.slots.writes, SlotKind::shard_gradient);
  if (slot < 0) return {unit.gradient(), run.into(unit, action)};
  if (begins)
    run.slots.acquire(slot, {.input = {},
                             .value = at::zeros({unit.length()},  // padding is summed too
                                                device_options(scalar_type(reduce_dtype_)))});
  return {run.slots.at(slot).value, {.how = begins ? SumInto::Mode::replace : SumInto::Mode::add}};
}

}  // namespace lockstep
