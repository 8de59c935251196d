#include "engine/engine.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "optim/gradient_norm.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <utility>

namespace lockstep {

/// One execution of a program: what it was given, the memory of its slots, its tickets, and the first failure of this
/// rank.
struct Engine::Run {
  Run(const StepProgram& whole, ProgramPhase of_phase, const RankClass& of, const SlotIndex& index, std::int64_t number,
      TraceLog& trace)
      : program(whole), phase(of_phase), ranks(of), slots(of, index, trace), tickets(of.actions.size()), step(number) {}

  /// A training step.
  void take(const StepOrder& given) {
    order = &given;
    failure = given.failure;
    times = given.times;
  }

  const StepProgram& program;
  ProgramPhase phase;
  const RankClass& ranks;             // its class of this rank
  const StepOrder* order = nullptr;   // of a training step
  const SeenText* text = nullptr;     // that is sampled
  const TokenDraw* draw = nullptr;    // for it
  std::vector<BatchTensors> batches;  // by micro-batch
  SlotStore slots;
  std::vector<Ticket> tickets;                   // by position; of what goes on behind the computation
  std::set<int> summed;                          // units whose gradient has sums of this step
  std::shared_ptr<std::vector<Interval>> times;  // where the step is measured
  std::vector<std::int64_t> tokens_of;           // by micro-batch: B·T
  std::vector<at::Tensor> stand_ins;             // sent by a rank that failed, in place of what it did not compute
  std::exception_ptr failure;
  std::int64_t step;
  double loss_sum = 0;  // of this rank; after reduce_loss of all ranks
  double squared_norm = 0;
  double gradient_scale = 1;
  std::int64_t tokens = 0;  // of this rank; after reduce_loss of all ranks
  StepOutcome outcome;
  at::Tensor logits;  // fp64, (V): behind the last token of `text`, where the head is
  DrawnToken token;
  bool skips_update = false;  // the heartbeat found that loss or gradient is not finite
  bool irrevocable = false;   // the heartbeat is past, which could have told of a failure, or a unit is updated

  /// Runs Local work unless this rank has failed; what it throws is the rank's failure, which the heartbeat tells all
  /// ranks. What comes after the heartbeat, or after the first update, throws out of the step.
  template <class Work>
  void attempt(Work&& work) {
    if (failure) return;
    try {
      std::forward<Work>(work)();
    } catch (...) {
      if (irrevocable) throw;
      failure = std::current_exception();
    }
  }

  /// What a sum finds in the gradient of its unit: the first of a step, nothing that counts.
  SumInto into(const Unit& unit, const Action& action) {
    return {summed.insert(action.subject.index).second ? SumInto::How::replace : SumInto::How::add,
            master_dtype(unit.precision())};
  }

  Interval& time_of(const Action& action) {
    const auto position = &action - ranks.actions.data();
    Interval& interval = (*times)[static_cast<std::size_t>(position)];
    interval.action = static_cast<int>(position);
    return interval;
  }

  void take(const std::vector<Batch>& micro_batches, const Model& model) {
    for (const Batch& batch : micro_batches) tokens_of.push_back(batch.samples * batch.length);
    attempt([&] {
      invariant(static_cast<int>(micro_batches.size()) == program.micro_batches,
                "a rank has the micro-batches of its program");
      for (const Batch& batch : micro_batches) {
        batches.push_back(to_tensors(batch, model.config()));
        if (model.has_head()) tokens += batch.valid_tokens;  // counted where the loss is computed
      }
    });
  }
};

namespace {

bool acquires_stash(const RankClass& ranks, const Action& action) {
  return std::ranges::any_of(action.slots.acquires, [&](int slot) {
    return ranks.slots[static_cast<std::size_t>(slot)].kind == SlotKind::stash;
  });
}

/// Communication behind the computation goes on beside the calling thread; it waits for all else, the heartbeat
/// included.
bool runs_here(const Action& action) { return !behind_computation(action.op); }

Phase phase_of(const Action& action, ProgramPhase phase) {
  if (phase == ProgramPhase::sampling) return Phase::sample;
  switch (action.op) {
    case Op::forward:
    case Op::receive_forward:
    case Op::send_forward: return phase == ProgramPhase::training ? Phase::forward : Phase::evaluation;
    case Op::recompute:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::receive_backward:
    case Op::send_backward: return Phase::backward;
    case Op::unshard:
    case Op::reshard: return Phase::gather;
    case Op::finish_gradient:
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::add_gradient: return Phase::reduction;
    case Op::gradient_norm: return Phase::norm;
    case Op::clip:
    case Op::optimizer: return Phase::optimizer;
    case Op::heartbeat: return Phase::heartbeat;
    case Op::reduce_loss: return Phase::evaluation;
    case Op::draw_token: return Phase::sample;
  }
  return Phase::forward;
}

bool is_update(Op op) { return op == Op::clip || op == Op::optimizer; }

/// The slot of the kept weights that an action gathers; -1 if it gathers those of all ranks.
int kept_slot(const RankClass& ranks, const Action& action) {
  for (const std::vector<int>* slots : {&action.slots.reads, &action.slots.releases})
    for (const int slot : *slots)
      if (ranks.slots[static_cast<std::size_t>(slot)].kind == SlotKind::kept_weights) return slot;
  return -1;
}

/// The slot of this kind among `slots`; -1 if there is none.
int slot_among(const RankClass& ranks, const std::vector<int>& slots, SlotKind kind) {
  const auto found =
      std::ranges::find_if(slots, [&](int slot) { return ranks.slots[static_cast<std::size_t>(slot)].kind == kind; });
  return found == slots.end() ? -1 : *found;
}

/// Memory for the `what` of a unit; what it holds is not looked at before it is written.
at::Tensor fresh(const Unit& unit, std::int64_t length, at::ScalarType type, std::string_view what) {
  const auto options = at::TensorOptions().dtype(type);
  try {
    return at::empty({length}, options);
  } catch (const std::exception&) {  // c10::Error and std::bad_alloc alike
    const auto bytes = static_cast<std::uint64_t>(length) * options.dtype().itemsize();
    throw Error(
        ExitCode::resources,
        fmt::format("cannot take {} for the {} of unit {}: out of memory", human_bytes(bytes), what, unit.name()),
        "smaller units (parallel.bucket_size, parallel.units) and fewer ranks on this machine need less");
  }
}

/// The first of those that hold the head.
Rank drawing_rank(const StepProgram& program) {
  const Subject head = block_subject(static_cast<int>(program.block_names.size()) - 1);
  Rank first = world_size(program.mesh);
  for (const RankClass& ranks : program.classes)
    if (std::ranges::find(ranks.actions, head, &Action::subject) != ranks.actions.end())
      first = std::min(first, ranks.ranks.front());
  return first;
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Transport make_transport(Session& session, const Catalogue& programs) {
  std::vector<std::string> lanes;
  for (int lane = 0; lane < lane_count; ++lane) lanes.emplace_back(name_of(static_cast<Lane>(lane)));
  return Transport(session, programs.train.mesh, lanes, groups_of(programs));
}

Engine::Engine(Model& model, const Optimizer& optimizer, const Catalogue& programs, Session& session,
               Transport& transport, std::optional<double> clip_norm, std::optional<DType> reduce_dtype)
    : model_(model),
      optimizer_(optimizer),
      programs_(programs),
      session_(session),
      transport_(transport),
      clip_norm_(clip_norm),
      reduce_dtype_(reduce_dtype.value_or(master_dtype(model.precision()))) {
  for (const StepProgram* program : programs.all()) {
    const bool same_blocks = program->block_names.size() == model.block_count();
    bool same_units = program->unit_names.size() == model.unit_count();
    for (std::size_t i = 0; same_units && i < model.unit_count(); ++i)
      same_units = !model.has_unit(i) || program->unit_names[i] == model.unit(i).name();
    invariant(same_blocks && same_units, "blocks and units of the step programs are those of the model");
    const RankClass& ranks = program->class_of(session.world().rank());
    slots_.emplace(&ranks, SlotIndex(ranks));
  }
  transport.take_records(records_);  // from now on they are kept
  transport.log_to(&trace_);
}

Engine::~Engine() { transport_.log_to(nullptr); }

Engine::Run Engine::begin(std::int64_t step, ProgramPhase phase) {
  const StepProgram& program = programs_.pick(step, phase);
  const RankClass& ranks = program.class_of(session_.world().rank());
  return Run(program, phase, ranks, slots_.at(&ranks), step, trace_);
}

StepOutcome Engine::run_step(const StepBatch& batch, const StepOrder& order) {
  Run run = begin(order.step, ProgramPhase::training);
  run.take(order);
  for (Unit* unit : model_.units()) unit->zero_grad();
  run.take(batch.micro_batches, model_);
  execute(run);
  return run.outcome;
}

EvaluationOutcome Engine::evaluate(const std::vector<Batch>& micro_batches, std::int64_t step) {
  Run run = begin(step, ProgramPhase::evaluation);
  run.take(micro_batches, model_);
  execute(run);
  return {run.loss_sum, run.tokens};
}

DrawnToken Engine::draw_token(const SeenText& text, const TokenDraw& draw, std::int64_t step) {
  Run run = begin(step, ProgramPhase::sampling);
  run.text = &text;
  run.draw = &draw;
  run.take({text.batch}, model_);
  execute(run);
  return run.token;
}

void Engine::execute(Run& run) {
  trace_.clear();
  try {
    go_through(run);
  } catch (const AgreedError&) {  // nothing is under way
    throw;
  } catch (...) {  // of this rank alone: what is under way uses memory of the run
    transport_.keep(std::make_shared<Run>(std::move(run)));
    throw;
  }
  drain(run);
  take_times(run);
}

void Engine::go_through(Run& run) {
  for (std::size_t position = 0; position < run.ranks.actions.size(); ++position) {
    const Action& action = run.ranks.actions[position];
    // A rank that failed drains: it computes nothing more, but takes part in what remains of the communication, so that
    // no other rank waits for it. The heartbeat then tells all ranks.
    if (run.skips_update && is_update(action.op)) {
      if (run.times) run.time_of(action).begin_s = run.time_of(action).end_s = monotonic_seconds();
      run.slots.release(static_cast<int>(position));
      continue;
    }
    run.attempt([&] { session_.enter(phase_of(action, run.phase), run.step); });
    if (is_collective(action.op)) {
      communicate(run, action, position);
    } else if (is_transfer(action.op)) {
      transfer(run, action, position);
    } else {
      // A ticket is waited for also by a rank that has failed: the lane uses what this action releases.
      wait_for(run, action);
      run.attempt([&] { perform(run, action); });
    }
    if (run.times && runs_here(action)) run.time_of(action).end_s = monotonic_seconds();
    run.slots.release(static_cast<int>(position));
  }
}

void Engine::wait_for(Run& run, const Action& action) {
  for (const int earlier : action.waits) {
    transport_.wait(run.tickets[static_cast<std::size_t>(earlier)]);
    run.slots.release_ended(earlier);
  }
  if (run.times && runs_here(action)) run.time_of(action).begin_s = monotonic_seconds();
}

void Engine::drain(Run& run) {
  transport_.drain();
  run.slots.release_all();
}

void Engine::take_times(Run& run) {
  transport_.take_records(records_);
  if (!run.times) return;
  for (const OperationRecord& record : records_) {
    const auto position = std::ranges::find(run.tickets, record.ticket) - run.tickets.begin();
    if (position == std::ssize(run.tickets)) continue;  // the heartbeat, which is measured where it is waited for
    Interval& interval = run.time_of(run.ranks.actions[static_cast<std::size_t>(position)]);
    interval.begin_s = record.begin_s;
    interval.end_s = record.end_s;
  }
}

void Engine::communicate(Run& run, const Action& action, std::size_t position) {
  wait_for(run, action);
  const int lane = static_cast<int>(action.lane), group = transport_.group_along(action.group);
  Ticket& ticket = run.tickets[position];
  switch (action.op) {
    case Op::unshard: {
      Unit& unit = unit_of(action.subject);
      const at::Tensor whole = fresh(unit, unit.whole_length(), compute_type(unit.precision()), "gathered weights");
      run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = whole});
      const DType dtype = compute_dtype(unit.precision());
      unit.lend_weights(whole);
      if (const int slot = kept_slot(run.ranks, action); slot >= 0)
        ticket = transport_.all_gather(lane, group, bytes_of(kept_weights(run, unit, slot)), bytes_of(whole),
                                       unit.kept_map(), dtype);
      else
        ticket = transport_.all_gather(lane, group, bytes_of(unit.compute()), bytes_of(whole), unit.shard_map(), dtype);
      return;
    }
    case Op::reduce_scatter: {
      Unit& unit = unit_of(action.subject);
      const std::span<std::byte> whole = give_up_gradient(run, unit, action);
      lend_step_gradient(run, unit, action);
      const auto [shard, into] = shard_of(run, unit, action);
      ticket = transport_.reduce_scatter(lane, group, whole, bytes_of(shard), unit.shard_map(), reduce_dtype_, into);
      return;
    }
    case Op::all_reduce: {
      Unit& unit = unit_of(action.subject);
      lend_step_gradient(run, unit, action);
      const std::span<std::byte> gradient = bytes_of(unit.gradient());
      if (action.slots.releases.empty()) {
        ticket = transport_.all_reduce(lane, group, gradient, reduce_dtype_, Reduce::sum);
        return;
      }
      const std::span<std::byte> own = unit.is_cut() ? bytes_of(run.slots.at(action.slots.releases.front()).value)
                                                     : give_up_gradient(run, unit, action);
      ticket = transport_.all_reduce_into(lane, group, own, reduce_dtype_, gradient, run.into(unit, action));
      return;
    }
    case Op::heartbeat: return heartbeat(run, action);
    case Op::reduce_loss: return reduce_loss(run, action);
    case Op::draw_token: return draw_token(run, action);
    default: throw Error(ExitCode::bug, fmt::format("the engine does not know the collective {}", name_of(action.op)));
  }
}

void Engine::transfer(Run& run, const Action& action, std::size_t position) {
  wait_for(run, action);
  const int lane = static_cast<int>(action.lane), group = transport_.group_along(action.group);
  const std::vector<Rank>& members = transport_.members(group);
  const auto peer = std::ranges::find(members, *peer_of(run.program.mesh, session_.world().rank(), action));
  const auto other = static_cast<int>(peer - members.begin());
  if (action.subject.kind == Subject::Kind::unit) return exchange_gradient(run, action, position, group, other);
  const std::array<std::int64_t, 2> shape{run.tokens_of[static_cast<std::size_t>(action.micro_batch)],
                                          model_.config().channels};
  const auto options = at::TensorOptions().dtype(stream_type(model_.precision()));
  Ticket& ticket = run.tickets[position];
  if (!is_send(action.op)) {
    const at::Tensor memory = at::empty(shape, options);
    run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
    ticket = transport_.receive(lane, group, other, bytes_of(memory), static_cast<int>(action.peer_lane));
    return;
  }
  const SlotKind kind = action.op == Op::send_forward ? SlotKind::boundary : SlotKind::boundary_gradient;
  const SlotContent* computed = run.slots.find(kind, action.subject, action.micro_batch);
  if (computed == nullptr) run.stand_ins.push_back(at::zeros(shape, options));  // of a rank that failed
  ticket = transport_.send(lane, group, other, bytes_of(computed ? computed->value : run.stand_ins.back()));
}

void Engine::exchange_gradient(Run& run, const Action& action, std::size_t position, int group, int peer) {
  Unit& unit = unit_of(action.subject);
  if (!unit.gradient().defined()) run.stand_ins.push_back(at::zeros_like(unit.master()));  // of a rank that failed
  const at::Tensor& own = unit.gradient().defined() ? unit.gradient() : run.stand_ins.back();
  const int lane = static_cast<int>(action.lane);
  if (is_send(action.op)) {
    run.tickets[position] = transport_.send(lane, group, peer, bytes_of(own));
    return;
  }
  const at::Tensor memory = at::empty_like(own);
  run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
  run.tickets[position] = transport_.receive(lane, group, peer, bytes_of(memory), static_cast<int>(action.peer_lane));
}

Unit& Engine::unit_of(const Subject& subject) const { return model_.unit(static_cast<std::size_t>(subject.index)); }

void Engine::lend_gradient(Run& run, Unit& unit, int slot) {
  const bool local = run.slots.slot(slot).kind == SlotKind::local_gradient;
  const at::Tensor memory =
      fresh(unit, local ? unit.whole_length() : unit.length(), master_type(unit.precision()), "gradient");
  run.slots.acquire(slot, {.input = {}, .value = memory});
  if (local)
    unit.lend_local_gradient(memory);
  else
    unit.lend_gradient(memory);
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
      unit_of(run.slots.slot(slot).subject).resume_local_gradient(run.slots.at(slot).value);
}

const at::Tensor& Engine::kept_weights(Run& run, const Unit& unit, int slot) {
  if (!run.slots.holds(slot))  // a rank that failed takes part with what there is
    run.slots.acquire(slot,
                      {.input = {}, .value = at::empty({unit.kept_map().shard_length}, unit.compute().options())});
  return run.slots.at(slot).value;
}

std::span<std::byte> Engine::give_up_gradient(Run& run, Unit& unit, const Action& action) {
  const int slot = action.slots.releases.front();
  const bool cast = run.slots.slot(slot).kind == SlotKind::cast_gradient;
  if (!run.slots.holds(slot)) {  // a rank that failed takes part with what there is
    if (cast)
      run.slots.acquire(
          slot, {.input = {}, .value = fresh(unit, unit.whole_length(), scalar_type(reduce_dtype_), "cast gradient")});
    else
      lend_gradient(run, unit, slot);
  }
  const at::Tensor& whole = run.slots.at(slot).value;  // the slot holds it until the transport has done with it
  if (!cast) unit.end_local_gradient(whole);
  return bytes_of(whole);
}

std::pair<at::Tensor, SumInto> Engine::shard_of(Run& run, const Unit& unit, const Action& action) const {
  int slot = slot_among(run.ranks, action.slots.acquires, SlotKind::shard_gradient);
  const bool begins = slot >= 0;  // a shard that is not yet the sum over all ranks
  if (!begins) slot = slot_among(run.ranks, action.slots.writes, SlotKind::shard_gradient);
  if (slot < 0) return {unit.gradient(), run.into(unit, action)};
  if (begins)
    run.slots.acquire(slot, {.input = {},
                             .value = at::zeros({unit.length()},  // padding is summed too
                                                at::TensorOptions().dtype(scalar_type(reduce_dtype_)))});
  return {run.slots.at(slot).value, {.how = begins ? SumInto::How::replace : SumInto::How::add}};
}

void Engine::record(Op op, const Unit& unit, MicroBatch micro_batch) {
  int index = 0;
  while (!model_.has_unit(static_cast<std::size_t>(index)) || &model_.unit(static_cast<std::size_t>(index)) != &unit)
    ++index;
  trace_.add({.event = TraceEntry::Event::computed,
              .what = name_of(op),
              .subject = unit_subject(index),
              .micro_batch = micro_batch});
}

void Engine::record(Op op, const Block& block, MicroBatch micro_batch) {
  int index = 0;
  while (!model_.has_block(static_cast<std::size_t>(index)) || &model_.block(static_cast<std::size_t>(index)) != &block)
    ++index;
  trace_.add({.event = TraceEntry::Event::computed,
              .what = name_of(op),
              .subject = block_subject(index),
              .micro_batch = micro_batch});
}

void Engine::perform(Run& run, const Action& action) {
  switch (action.op) {
    case Op::forward: return forward(run, action);
    case Op::recompute: return recompute(run, action);
    case Op::backward:
    case Op::backward_input: return backward(run, action);
    case Op::backward_weight: return backward_weight(run, action);
    case Op::clip:
      run.gradient_scale = clip_factor(run.outcome.gradient_norm, clip_norm_);
      return trace_.add({.event = TraceEntry::Event::computed, .what = name_of(Op::clip)});
    case Op::reshard:
    case Op::finish_gradient:
    case Op::add_gradient:
    case Op::gradient_norm:
    case Op::optimizer: return perform(run, action, unit_of(action.subject));
    case Op::unshard:
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::heartbeat:
    case Op::reduce_loss:
    case Op::draw_token:
    case Op::receive_forward:
    case Op::send_forward:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::send_gradient:
    case Op::receive_gradient: break;
  }
  fail(ExitCode::bug, "the engine does not carry out {}", name_of(action.op));
}

void Engine::perform(Run& run, const Action& action, Unit& unit) {
  at::Tensor made;  // for the slot that the action acquires
  if (action.op == Op::reshard) {
    if (!action.slots.acquires.empty()) made = unit.keep_weights();
    unit.lend_weights({});
  } else if (action.op == Op::finish_gradient) {
    const int own = (action.slots.releases.empty() ? action.slots.writes : action.slots.releases).front();
    const bool lent = run.slots.slot(own).kind == SlotKind::local_gradient;
    if (lent) unit.resume_local_gradient(run.slots.at(own).value);
    unit.finish_gradients();
    if (session_.take_injected_nan()) unit.local_gradient().fill_(not_a_number);
    if (!action.slots.acquires.empty()) {
      made = fresh(unit, unit.whole_length(), scalar_type(reduce_dtype_), "cast gradient");
      made.copy_(unit.local_gradient());
      if (lent) unit.end_local_gradient(run.slots.at(own).value);
    }
  } else if (action.op == Op::add_gradient) {
    unit.gradient().add_(run.slots.at(SlotKind::peer_gradient, action.subject, no_micro_batch).value);
  } else if (action.op == Op::gradient_norm) {
    const std::vector<Rank> holders = group_along(run.program.mesh, session_.world().rank(), action.group);
    const auto share = std::ranges::find(holders, session_.world().rank()) - holders.begin();
    run.squared_norm += squared_norm(unit, static_cast<int>(share), static_cast<int>(holders.size()));
  } else {
    if (session_.take_injected_nan()) run.gradient_scale = not_a_number;
    run.irrevocable = true;
    optimizer_.update(unit, run.order->step - run.order->skipped, run.order->lr, run.gradient_scale);
    if (!action.slots.releases.empty()) unit.lend_gradient({});
  }
  record(action.op, unit, action.micro_batch);
  if (made.defined()) run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = made});
}

void Engine::forward(Run& run, const Action& action) {
  const int index = action.subject.index;
  const MicroBatch mb = action.micro_batch;
  const bool keeps = acquires_stash(run.ranks, action);
  Block& block = model_.block(static_cast<std::size_t>(index));
  at::Tensor input;
  if (index > 0) input = run.slots.at(SlotKind::boundary, boundary_subject(index), mb).value;
  const c10::AutoGradMode grad_mode(keeps);
  if (keeps && index > 0) input = input.detach().requires_grad_(true);
  if (run.text != nullptr && block.kind() == BlockDescription::Kind::head) {
    run.logits = model_.head().logits(input.narrow(0, run.text->last, 1)).select(0, 0).to(at::kDouble);
    if (session_.take_injected_nan()) run.logits.fill_(not_a_number);
    return record(Op::forward, block, mb);
  }
  const at::Tensor output = block.forward(input, run.batches[static_cast<std::size_t>(mb)]);
  record(Op::forward, block, mb);
  if (block.kind() == BlockDescription::Kind::head) {
    run.loss_sum += session_.take_injected_nan() ? not_a_number : output.item<double>();
  } else {
    run.slots.acquire(SlotKind::boundary, boundary_subject(index + 1), mb, {.input = {}, .value = output.detach()});
  }
  if (keeps) run.slots.acquire(SlotKind::stash, action.subject, mb, {input, output});
}

void Engine::recompute(Run& run, const Action& action) {
  const int index = action.subject.index;
  const MicroBatch mb = action.micro_batch;
  Block& block = model_.block(static_cast<std::size_t>(index));
  const at::Tensor input =
      run.slots.at(SlotKind::boundary, boundary_subject(index), mb).value.detach().requires_grad_(true);
  const c10::AutoGradMode grad_mode(true);
  const at::Tensor output = block.forward(input, run.batches[static_cast<std::size_t>(mb)]);
  record(Op::recompute, block, mb);
  run.slots.acquire(SlotKind::stash, action.subject, mb, {input, output});
}

void Engine::backward(Run& run, const Action& action) {
  const int index = action.subject.index;
  const MicroBatch mb = action.micro_batch;
  lend_gradients(run, action);
  const Block& block = model_.block(static_cast<std::size_t>(index));
  const SlotContent& stash = run.slots.at(SlotKind::stash, action.subject, mb);
  at::Tensor seed;
  if (block.kind() == BlockDescription::Kind::head) {
    const auto valid_tokens = static_cast<double>(run.order->valid_tokens);
    seed = at::full({}, valid_tokens > 0 ? 1 / valid_tokens : 0, stash.value.options());
  } else {
    seed = run.slots.at(SlotKind::boundary_gradient, boundary_subject(index + 1), mb).value;
  }
  if (session_.take_injected_nan()) seed = at::full_like(seed, not_a_number);
  std::shared_ptr<DeferredWeightGradients> deferred;
  if (action.op == Op::backward)
    torch::autograd::backward({stash.value}, {seed});
  else
    deferred = std::make_shared<DeferredWeightGradients>(backward_input(stash.value, seed));
  record(action.op, block, mb);
  if (index > 0)
    run.slots.acquire(SlotKind::boundary_gradient, boundary_subject(index), mb,
                      {.input = {}, .value = stash.input.grad()});
  if (deferred && !deferred->empty())
    run.slots.acquire(SlotKind::deferred, action.subject, mb, {.input = {}, .value = {}, .deferred = deferred});
}

void Engine::backward_weight(Run& run, const Action& action) {
  lend_gradients(run, action);
  run.slots.at(SlotKind::deferred, action.subject, action.micro_batch).deferred->compute();
  record(Op::backward_weight, model_.block(static_cast<std::size_t>(action.subject.index)), action.micro_batch);
}

void Engine::heartbeat(Run& run, const Action& action) {
  HeartbeatData mine;
  mine.loss_sum = run.loss_sum;
  mine.grad_norm_squared = run.squared_norm;
  if (session_.take_injected_nan()) mine.grad_norm_squared = not_a_number;
  mine.next_tokens = model_.has_head() ? run.order->next_valid_tokens : 0;  // once, however many ranks share a batch
  mine.stop = run.order->stop;
  mine.requests = run.order->requests;
  mine.failure = run.failure;
  const HeartbeatData all = agree(run, action, mine);
  const auto valid_tokens = static_cast<double>(run.order->valid_tokens);
  run.outcome = {.loss = valid_tokens > 0 ? all.loss_sum / valid_tokens : 0,
                 .gradient_norm = std::sqrt(all.grad_norm_squared),
                 .updated = std::isfinite(all.loss_sum) && std::isfinite(all.grad_norm_squared),
                 .next_valid_tokens = all.next_tokens,
                 .stop = all.stop,
                 .requests = all.requests};
  run.skips_update = !run.outcome.updated;
  run.irrevocable = true;
}

HeartbeatData Engine::agree(Run& run, const Action& action, const HeartbeatData& mine) {
  drain(run);
  return lockstep::heartbeat(transport_, static_cast<int>(action.lane), transport_.group_along(action.group),
                             session_.world(), mine);
}

void Engine::reduce_loss(Run& run, const Action& action) {
  HeartbeatData mine;
  mine.loss_sum = run.loss_sum;
  mine.tokens = run.tokens;
  mine.failure = run.failure;
  const HeartbeatData all = agree(run, action, mine);
  run.loss_sum = all.loss_sum;
  run.tokens = all.tokens;
}

void Engine::draw_token(Run& run, const Action& action) {
  HeartbeatData mine;
  run.attempt([&] {
    if (session_.world().rank() != drawing_rank(run.program)) return;
    const DrawnToken token = (*run.draw)(values_of<double>(run.logits));
    mine.tokens = token.id;  // the only one: the sum is what was drawn
    if (token.ends) mine.stop = StopLevel::after_step;
  });
  mine.failure = run.failure;
  const HeartbeatData all = agree(run, action, mine);
  run.token = {.id = static_cast<std::int32_t>(all.tokens), .ends = all.stop != StopLevel::none};
}

}  // namespace lockstep
