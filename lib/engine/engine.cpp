#include "engine/engine.hpp"

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "device/device.hpp"
#include "engine/make_model_plan.hpp"
#include "engine/run.hpp"
#include "program/memory_estimate.hpp"
#include "program/memory_fit.hpp"
#include "tensor/device_exchange.hpp"
#include "tensor/libtorch_error.hpp"
#include "tensor/live_memory.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep {

namespace {

/// Communication behind the computation goes on beside the calling thread; it waits for all else, the heartbeat
/// included.
bool runs_here(const Action& action) { return !overlaps_compute(action.op); }

Phase phase_of(const Action& action, ProgramPhase phase) {
  if (continues_texts(phase)) return Phase::sample;
  switch (action.op) {
    case Op::forward:
    case Op::receive_forward:
    case Op::send_forward:
    case Op::offload_stash: return phase == ProgramPhase::training ? Phase::forward : Phase::evaluation;
    case Op::recompute:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::fetch_stash: return Phase::backward;
    case Op::unshard:
    case Op::fetch_weights:
    case Op::reshard: return Phase::gather;
    case Op::finish_gradient:
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::add_gradient:
    case Op::offload_gradient: return Phase::reduction;
    case Op::gradient_norm: return Phase::norm;
    case Op::clip:
    case Op::fetch_state:
    case Op::optimizer:
    case Op::offload_state: return Phase::optimizer;
    case Op::average_weights:
    case Op::finish_average: return Phase::average;
    case Op::reduce_norm:
    case Op::heartbeat: return Phase::heartbeat;
    case Op::reduce_loss: return Phase::evaluation;
    case Op::draw_tokens: return Phase::sample;
  }
  return Phase::forward;
}

/// Along which ranks speak within blocks.
std::set<std::vector<AxisName>> block_axes(const Catalogue& programs) {
  std::set<std::vector<AxisName>> axes;
  for (const StepProgram* program : programs.all())
    for (const BlockExchanges& block : program->exchanges)
      for (const auto& said : {block.forward, block.backward})
        for (const BlockExchange& exchange : said) axes.insert(exchange.axes);
  return axes;
}

/// Axes of ranks that have rows of a stream of the same samples between them.
std::vector<AxisName> axes_of_samples(const StepProgram& program) {
  std::vector<AxisName> axes = axes_of(sequence_ranks(program.mesh));
  for (const AxisName& axis : {tensor_axis, key_replica_axis})
    if (program.row_shares > 1 && find_axis(program.mesh, axis) != nullptr) axes.push_back(axis);
  return axes;
}

/// Whether it is left out of a step that changes nothing. Cells are averaged all the same.
bool is_update(Op op) {
  return op == Op::clip || op == Op::fetch_state || op == Op::optimizer || op == Op::offload_state;
}

bool is_backward(Op op) { return op == Op::backward || op == Op::backward_input || op == Op::backward_weight; }

/// Where in the actions of a rank the moments of a step are.
class MomentTeller {
 public:
  MomentTeller(const RankClass& ranks, const std::function<void(StepMoment, MicroBatch)>& tell)
      : actions_(ranks.actions), tell_(tell) {
    for (std::size_t position = 0; position < actions_.size(); ++position) {
      if (is_backward(actions_[position].op)) last_backward_[actions_[position].micro_batch] = position;
      if (actions_[position].op != Op::optimizer) continue;
      if (!first_update_) first_update_ = position;
      last_update_ = position;
    }
  }
  void before(std::size_t position) const {
    if (position == first_update_) tell_(StepMoment::before_update, no_micro_batch);
  }
  void behind(std::size_t position) const {
    const MicroBatch mb = actions_[position].micro_batch;
    if (is_backward(actions_[position].op) && last_backward_.at(mb) == position) tell_(StepMoment::micro_batch_end, mb);
    if (position == last_update_) tell_(StepMoment::updated, no_micro_batch);
  }

 private:
  const std::vector<Action>& actions_;
  const std::function<void(StepMoment, MicroBatch)>& tell_;
  std::map<MicroBatch, std::size_t> last_backward_;
  std::optional<std::size_t> first_update_, last_update_;
};

/// Does the `work` of an action; where it is wrong itself, not what it was given, the error says which action it was.
template <class Work>
void naming(const StepProgram& program, const Action& action, std::size_t position, Work&& work) {
  const auto named = [&](std::string_view what) {
    return fmt::format("{}, in action {}: {}", what, position, to_text(program, action));
  };
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    if (error.code() != ExitCode::bug) throw;
    throw Error(ExitCode::bug, named(error.what()), error.hint());
  } catch (const c10::IndexError& error) {
    throw Error(ExitCode::bug, named(error.what_without_backtrace()));
  }
}

}  // namespace

Error out_of_memory(const c10::OutOfMemoryError& error, ProgramPhase phase, const RankClass& ranks) {
  std::string held;
  for (const auto& [kind, bytes] : memory_of(ranks).bytes)
    if (bytes > 0)
      held += fmt::format("{}{} {}", held.empty() ? "" : ", ", name_of(kind),
                          human_bytes(static_cast<std::uint64_t>(bytes)));
  return Error(ExitCode::resources, fmt::format("{}; at its peak the step holds {}", message_of(error), held),
               "use " + less_device_memory(phase));
}

namespace {

/// The lanes and groups, by number, in which programs exchange something.
struct LanesInUse {
  std::set<std::pair<int, int>> used, on_device;
};

LanesInUse lanes_in_use(const Catalogue& programs, const std::vector<std::vector<AxisName>>& groups) {
  LanesInUse lanes;
  for (const StepProgram* program : programs.all())
    for (const RankClass& ranks : program->classes)
      for (const Action& action : ranks.actions) {
        const auto use = [&](Lane lane, const std::vector<AxisName>& group) {
          const std::pair<int, int> place(static_cast<int>(lane), std::ranges::find(groups, group) - groups.begin());
          lanes.used.insert(place);
          if (lane != Lane::compute) lanes.on_device.insert(place);  // what ranks agree on there lies in host memory
        };
        for (const BlockExchange& exchange : exchanges_of(*program, action)) use(Lane::block, exchange.axes);
        if (meets_others(action) && !exchanges_within(action) && (!is_transfer(action.op) || is_send(action.op)))
          use(action.lane, action.group);
      }
  return lanes;
}

}  // namespace

std::vector<std::string> device_groups(const Catalogue& programs, Rank rank) {
  const Mesh& mesh = programs.train.mesh;
  const std::vector<std::vector<AxisName>> groups = groups_of(programs);
  std::set<int> connected;
  for (const auto& [lane, group] : lanes_in_use(programs, groups).on_device) connected.insert(group);
  std::set<std::vector<Rank>> found;
  std::vector<std::string> names;
  for (const int group : connected) {
    const std::vector<AxisName>& axes = groups[static_cast<std::size_t>(group)];
    std::vector<Rank> members = group_along(mesh, rank, axes);
    std::ranges::sort(members);
    if (members.size() == 1 || !found.insert(std::move(members)).second) continue;
    std::vector<std::string> several;  // axes of one rank tell nothing
    for (const AxisName& axis : axes)
      if (group_along(mesh, rank, {axis}).size() > 1) several.push_back(axis);
    names.push_back(join(several, "+"));
  }
  return names;
}

Transport make_transport(Session& session, const Catalogue& programs) {
  std::vector<std::string> lanes;
  for (int lane = 0; lane < lane_count; ++lane) lanes.emplace_back(name_of(static_cast<Lane>(lane)));
  const std::vector<std::vector<AxisName>> groups = groups_of(programs);
  const LanesInUse in_use = lanes_in_use(programs, groups);
  const auto contains = [](const std::set<std::pair<int, int>>& set) {
    return [&set](int lane, int group) { return set.contains({lane, group}); };
  };
  return Transport(session, programs.train.mesh, lanes, groups, contains(in_use.used), exchange_of_device(),
                   contains(in_use.on_device));
}

Engine::Engine(Model& model, const Optimizer& optimizer, const Catalogue& programs, Session& session,
               Transport& transport, std::optional<double> clip_norm, std::optional<DType> reduce_dtype)
    : model_(model),
      optimizer_(optimizer),
      programs_(programs),
      session_(session),
      transport_(transport),
      clip_norm_(clip_norm),
      reduce_dtype_(reduce_dtype.value_or(master_dtype(model.precision()))),
      place_(sequence_place(programs.train.mesh, session.world().rank())),
      numbers_(expert_loads(model.config())) {
  for (const StepProgram* program : programs.all()) {
    const bool same_blocks = program->block_names.size() == model.block_count();
    bool same_units = program->unit_names.size() == model.unit_count();
    for (std::size_t i = 0; same_units && i < model.unit_count(); ++i)
      same_units = !model.has_unit(i) || program->unit_names[i] == model.unit(i).name();
    invariant(same_blocks && same_units, "step programs and model have the same blocks and units");
    const RankClass& ranks = program->class_of(session.world().rank());
    slots_.emplace(&ranks, SlotIndex(ranks));
  }
  for (const std::vector<AxisName>& axes : block_axes(programs)) {
    const bool shares_rows = axes.front() == tensor_axis && programs.train.row_shares > 1;
    block_lanes_.try_emplace(axes, transport, static_cast<int>(Lane::block), transport.group_along(axes),
                             session.world().rank(), shares_rows ? BlockLane::Rows::shared : BlockLane::Rows::whole);
  }
  model.share({.tensor = tensor_lane(),
               .ulysses = lane_among({ulysses_axis}),
               .ring = lane_among({ring_axis}),
               .experts = lane_among({expert_axis}),
               .samples = lane_among(axes_of_samples(programs.train))});
  for (const StepProgram* program : {&programs.train, &programs.local, &programs.averaging}) {
    for (std::size_t i = 0; i < program->update_exchanges.size(); ++i) {
      const std::vector<BlockExchange>& said = program->update_exchanges[i];
      if (said.empty() || !model.has_unit(i)) continue;
      const auto lane = update_lanes_.try_emplace(said.front().axes, transport, static_cast<int>(Lane::block),
                                                  transport.group_along(said.front().axes), session.world().rank());
      model.unit(i).share_updates(&lane.first->second);
    }
  }
  transport.take_records(records_);  // from now on they are kept
  transport.log_to(&trace_);
}

const BlockLane* Engine::lane_among(const std::vector<AxisName>& axes) const {
  const auto found = block_lanes_.find(axes);
  return found == block_lanes_.end() ? nullptr : &found->second;
}

const BlockLane* Engine::tensor_lane() const {
  const auto found =
      std::ranges::find_if(block_lanes_, [](const auto& lane) { return lane.first.front() == tensor_axis; });
  return found == block_lanes_.end() ? nullptr : &found->second;
}

Engine::~Engine() {
  model_.share({});
  for (Unit* unit : model_.units()) unit->share_updates(nullptr);
  transport_.log_to(nullptr);
}

Engine::Run Engine::begin(std::int64_t step, ProgramPhase phase) {
  const StepProgram& program = programs_.pick(step, phase);
  const RankClass& ranks = program.class_of(session_.world().rank());
  numbers_.clear();
  return Run(program, phase, ranks, slots_.at(&ranks), step, trace_);
}

void Engine::read_numbers(Run& run) {
  if (std::exchange(run.numbers_are_read, true)) return;
  const std::vector<double> numbers = numbers_.read();
  const auto number = [&](StepNumber one) { return numbers[static_cast<std::size_t>(one)]; };
  run.loss_sum = number(StepNumber::loss);
  run.aux_loss_sum = number(StepNumber::aux_loss);
  std::copy(numbers.begin() + step_numbers, numbers.begin() + step_numbers + std::ssize(run.expert_loads),
            run.expert_loads.begin());
  run.correct = number(StepNumber::correct);
  run.squared_norm = number(StepNumber::squared_norm);
}

StepOutcome Engine::run_step(const StepBatch& batch, const StepOrder& order) {
  Run run = begin(order.step, ProgramPhase::training);
  run.take(order);
  run.expert_loads.resize(static_cast<std::size_t>(expert_loads(model_.config())));
  run.attempt([&] {
    for (Unit* unit : model_.units()) unit->zero_grad();
    if (search_) search_->begin();
  });
  run.take(batch.micro_batches, model_, place_, counts_loss());
  execute(run);
  return run.outcome;
}

EvaluationOutcome Engine::evaluate(const std::vector<Batch>& micro_batches, std::int64_t step) {
  Run run = begin(step, ProgramPhase::evaluation);
  run.take(micro_batches, model_, place_, counts_loss());
  execute(run);
  return {run.loss_sum, run.tokens, static_cast<std::int64_t>(run.correct)};
}

std::vector<DrawnToken> Engine::continue_texts(const TextPass& pass, ProgramPhase phase, const TokenDraw& draw,
                                               std::int64_t step) {
  Run run = begin(step, phase);
  run.take(pass, draw, model_);
  execute(run);
  return run.drawn;
}

void Engine::execute(Run& run) {
  trace_.clear();
  try {
    run.in_memory([&] { go_through(run); });
  } catch (const AgreedError&) {  // nothing is under way
    throw;
  } catch (...) {  // of this rank alone: what is under way uses memory of the run
    transport_.keep(std::make_shared<Run>(std::move(run)));
    throw;
  }
  drain(run);
  await_offloads(run);
  take_times(run);
}

void Engine::await_offloads(const Run& run) {
  if (offloads_state(run.ranks)) this_device().wait(this_device().record(DeviceQueue::from_device));
}

void Engine::go_through(Run& run) {
  if (run.irrevocable && run.failure) std::rethrow_exception(run.failure);
  std::optional<MomentTeller> moments;
  if (run.order != nullptr && run.order->moments) moments.emplace(run.ranks, run.order->moments);
  for (std::size_t position = 0; position < run.ranks.actions.size(); ++position) {
    const Action& action = run.ranks.actions[position];
    // A rank that failed drains: it computes nothing more, but takes part in what remains of the communication, so that
    // no other rank waits for it. The heartbeat then tells all ranks.
    if (run.skips_update && is_update(action.op)) {
      run.mark(action, Run::Mark::begin);
      run.mark(action, Run::Mark::end);
      run.slots.release(static_cast<int>(position));
      continue;
    }
    run.attempt([&] {
      session_.enter(phase_of(action, run.phase), run.step, {static_cast<int>(position), name_of(action.op)});
    });
    if (is_collective(action.op)) {
      communicate(run, action, position);
    } else if (is_transfer(action.op)) {
      transfer(run, action, position);
    } else if (is_copy(action.op)) {
      copy(run, action, position);
    } else {
      // A ticket is waited for also by a rank that has failed: the lane uses what this action releases.
      wait_for(run, action);
      if (moments && !run.failure) moments->before(position);
      run.attempt([&] { naming(run.program, action, position, [&] { perform(run, action); }); });
      if (moments && !run.failure) moments->behind(position);
    }
    if (runs_here(action)) run.mark(action, Run::Mark::end);
    if (runs_here(action) && !this_device().properties().is_host)
      run.attempt([&] { this_device().note(fmt::format("{} of step {}", to_text(run.program, action), run.step)); });
    run.slots.release(static_cast<int>(position));
    if (run.memory && runs_here(action))
      (*run.memory)[position] = this_device().properties().is_host ? resident_bytes() : live_bytes();
  }
}

void Engine::wait_for(Run& run, const Action& action) {
  for (const int earlier : action.waits) {
    transport_.wait(run.tickets[static_cast<std::size_t>(earlier)]);
    run.slots.release_ended(earlier);
  }
  if (runs_here(action)) run.mark(action, Run::Mark::begin);
}

void Engine::drain(Run& run) {
  transport_.drain();
  run.slots.release_all();
}

void Engine::take_times(Run& run) {
  transport_.take_records(records_);
  if (!run.times) return;
  run.take_marks();
  for (const OperationRecord& record : records_) {
    const auto position = std::ranges::find(run.tickets, record.ticket) - run.tickets.begin();
    if (position == std::ssize(run.tickets)) continue;  // the heartbeat, which is measured where it is waited for
    Interval& interval = run.time_of(run.ranks.actions[static_cast<std::size_t>(position)]);
    interval.begin_s = record.begin_s;
    interval.end_s = record.end_s;
  }
}

bool Engine::is_first_of_sharers() const {
  const BlockLane* const shared = tensor_lane();
  return shared == nullptr || shared->rank() == 0;
}

bool Engine::counts_loss() const { return model_.has_head() && is_first_of_sharers(); }

bool Engine::counts_batch() const { return counts_loss() && place_.index() == 0; }

Unit& Engine::unit_of(const Subject& subject) const { return model_.unit(static_cast<std::size_t>(subject.index)); }

}  // namespace lockstep
