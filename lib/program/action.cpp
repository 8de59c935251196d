#include "program/action.hpp"

#include "base/error.hpp"

namespace lockstep {

const OpFacts& facts_of(Op op) {
  using Kind = Subject::Kind;
  using Scope = OpFacts::Scope;
  using Group = OpFacts::Group;
  static constexpr OpFacts forward{"forward", Kind::block, Scope::micro_batch, Group::within, Lane::compute},
      recompute{"recompute", Kind::block, Scope::micro_batch, Group::within, Lane::compute},
      backward{"backward", Kind::block, Scope::micro_batch, Group::within, Lane::compute},
      backward_input{"backward_input", Kind::block, Scope::micro_batch, Group::within, Lane::compute},
      backward_weight{"backward_weight", Kind::block, Scope::micro_batch, Group::none, Lane::compute},
      receive_forward{"receive_forward", Kind::boundary, Scope::micro_batch, Group::pair, Lane::receive},
      send_forward{"send_forward", Kind::boundary, Scope::micro_batch, Group::pair, Lane::send_forward},
      receive_backward{"receive_backward", Kind::boundary, Scope::micro_batch, Group::pair, Lane::receive},
      send_backward{"send_backward", Kind::boundary, Scope::micro_batch, Group::pair, Lane::send_backward},
      unshard{"unshard", Kind::unit, Scope::step, Group::collective, Lane::gather},
      reshard{"reshard", Kind::unit, Scope::step, Group::shared, Lane::compute},
      finish_gradient{"finish_gradient", Kind::unit, Scope::either, Group::none, Lane::compute},
      reduce_scatter{"reduce_scatter", Kind::unit, Scope::either, Group::collective, Lane::reduction},
      all_reduce{"all_reduce", Kind::unit, Scope::either, Group::collective, Lane::reduction},
      send_gradient{"send_gradient", Kind::unit, Scope::step, Group::pair, Lane::send_backward},
      receive_gradient{"receive_gradient", Kind::unit, Scope::step, Group::pair, Lane::receive},
      add_gradient{"add_gradient", Kind::unit, Scope::step, Group::none, Lane::compute},
      gradient_norm{"gradient_norm", Kind::unit, Scope::step, Group::shared, Lane::compute},
      reduce_norm{"reduce_norm", Kind::none, Scope::step, Group::collective, Lane::reduction},
      heartbeat{"heartbeat", Kind::none, Scope::step, Group::collective, Lane::reduction},
      clip{"clip", Kind::none, Scope::step, Group::none, Lane::compute},
      optimizer{"optimizer", Kind::unit, Scope::step, Group::within, Lane::compute},
      average_weights{"average_weights", Kind::unit, Scope::step, Group::collective, Lane::reduction},
      finish_average{"finish_average", Kind::unit, Scope::step, Group::none, Lane::compute},
      fetch_weights{"fetch_weights", Kind::unit, Scope::step, Group::none, Lane::fetch},
      offload_gradient{"offload_gradient", Kind::unit, Scope::step, Group::none, Lane::offload},
      fetch_state{"fetch_state", Kind::unit, Scope::step, Group::none, Lane::fetch},
      offload_state{"offload_state", Kind::unit, Scope::step, Group::none, Lane::offload},
      offload_stash{"offload_stash", Kind::block, Scope::micro_batch, Group::none, Lane::offload},
      fetch_stash{"fetch_stash", Kind::block, Scope::micro_batch, Group::none, Lane::fetch},
      reduce_loss{"reduce_loss", Kind::none, Scope::step, Group::collective, Lane::reduction},
      draw_tokens{"draw_tokens", Kind::none, Scope::step, Group::collective, Lane::reduction};
  switch (op) {
    case Op::forward: return forward;
    case Op::recompute: return recompute;
    case Op::backward: return backward;
    case Op::backward_input: return backward_input;
    case Op::backward_weight: return backward_weight;
    case Op::receive_forward: return receive_forward;
    case Op::send_forward: return send_forward;
    case Op::receive_backward: return receive_backward;
    case Op::send_backward: return send_backward;
    case Op::unshard: return unshard;
    case Op::reshard: return reshard;
    case Op::finish_gradient: return finish_gradient;
    case Op::reduce_scatter: return reduce_scatter;
    case Op::all_reduce: return all_reduce;
    case Op::send_gradient: return send_gradient;
    case Op::receive_gradient: return receive_gradient;
    case Op::add_gradient: return add_gradient;
    case Op::gradient_norm: return gradient_norm;
    case Op::reduce_norm: return reduce_norm;
    case Op::heartbeat: return heartbeat;
    case Op::clip: return clip;
    case Op::optimizer: return optimizer;
    case Op::average_weights: return average_weights;
    case Op::finish_average: return finish_average;
    case Op::fetch_weights: return fetch_weights;
    case Op::offload_gradient: return offload_gradient;
    case Op::fetch_state: return fetch_state;
    case Op::offload_state: return offload_state;
    case Op::offload_stash: return offload_stash;
    case Op::fetch_stash: return fetch_stash;
    case Op::reduce_loss: return reduce_loss;
    case Op::draw_tokens: return draw_tokens;
  }
  fail(ExitCode::bug, "unknown Op {}", static_cast<int>(op));
}

std::string_view name_of(Op op) { return facts_of(op).name; }

bool is_collective(Op op) { return facts_of(op).group == OpFacts::Group::collective; }

bool exchanges_within(const Action& action) {
  return facts_of(action.op).group == OpFacts::Group::within && !action.group.empty();
}

bool meets_others(const Action& action) {
  switch (facts_of(action.op).group) {
    case OpFacts::Group::collective:
    case OpFacts::Group::pair: return true;
    case OpFacts::Group::within: return exchanges_within(action);
    case OpFacts::Group::shared:
    case OpFacts::Group::none: return false;
  }
  fail(ExitCode::bug, "unknown OpFacts::Group {}", static_cast<int>(facts_of(action.op).group));
}

bool is_transfer(Op op) { return facts_of(op).group == OpFacts::Group::pair; }

bool is_send(Op op) { return op == Op::send_forward || op == Op::send_backward || op == Op::send_gradient; }

bool is_copy(Op op) {
  const Lane lane = facts_of(op).lane;
  return lane == Lane::fetch || lane == Lane::offload;
}

bool is_received_by(const Action& send, const Action& receive) {
  return is_send(send.op) && receive.op == counterpart_of(send.op) && receive.subject == send.subject &&
         receive.micro_batch == send.micro_batch && receive.group == send.group && receive.offset == -send.offset &&
         receive.peer_lane == send.lane;
}

Op counterpart_of(Op transfer) {
  if (transfer == Op::receive_forward) return Op::send_forward;
  if (transfer == Op::send_forward) return Op::receive_forward;
  if (transfer == Op::receive_backward) return Op::send_backward;
  if (transfer == Op::receive_gradient) return Op::send_gradient;
  if (transfer == Op::send_gradient) return Op::receive_gradient;
  invariant(transfer == Op::send_backward, "only a transfer has a counterpart");
  return Op::receive_backward;
}

bool adds_to_gradients(Op op) { return op == Op::backward || op == Op::backward_input || op == Op::backward_weight; }

bool overlaps_compute(Op op) {
  return is_transfer(op) || is_copy(op) || (is_collective(op) && facts_of(op).subject == Subject::Kind::unit);
}

std::string_view name_of(Subject::Kind kind) {
  switch (kind) {
    case Subject::Kind::none: return "none";
    case Subject::Kind::stage: return "stage";
    case Subject::Kind::block: return "block";
    case Subject::Kind::unit: return "unit";
    case Subject::Kind::boundary: return "boundary";
  }
  fail(ExitCode::bug, "unknown Subject::Kind {}", static_cast<int>(kind));
}

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::gather: return "gather";
    case Lane::reduction: return "reduction";
    case Lane::replica: return "replica";
    case Lane::receive: return "receive";
    case Lane::send_forward: return "send_forward";
    case Lane::send_backward: return "send_backward";
    case Lane::send_forward_up: return "send_forward_up";
    case Lane::send_backward_up: return "send_backward_up";
    case Lane::fetch: return "fetch";
    case Lane::offload: return "offload";
    case Lane::block: return "block";
  }
  fail(ExitCode::bug, "unknown Lane {}", static_cast<int>(lane));
}

}  // namespace lockstep
