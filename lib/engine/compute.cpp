// What an action computes on this rank.
#include "base/error.hpp"
#include "engine/run.hpp"
#include "optim/gradient_norm.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

bool acquires_stash(const RankClass& ranks, const Action& action) {
  return std::ranges::any_of(action.slots.acquires, [&](int slot) {
    return ranks.slots[static_cast<std::size_t>(slot)].kind == SlotKind::stash;
  });
}

}  // namespace

void Engine::perform(Run& run, const Action& action) {
  switch (action.op) {
    case Op::forward: return forward(run, action);
    case Op::recompute: return recompute(run, action);
    case Op::backward:
    case Op::backward_input: return backward(run, action);
    case Op::backward_weight: return backward_weight(run, action);
    case Op::clip:
      run.gradient_scale =
          clip_factor(std::sqrt(run.clipped_norm_squared) / run.order->loss_scale, clip_norm_) / run.order->loss_scale;
      return trace_.add({.event = TraceEntry::Event::computed, .what = name_of(Op::clip)});
    case Op::reshard:
    case Op::finish_gradient:
    case Op::add_gradient:
    case Op::gradient_norm:
    case Op::optimizer:
    case Op::finish_average: return perform(run, action, unit_of(action.subject));
    case Op::unshard:
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::average_weights:
    case Op::reduce_norm:
    case Op::heartbeat:
    case Op::reduce_loss:
    case Op::draw_tokens:
    case Op::receive_forward:
    case Op::send_forward:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::fetch_weights:
    case Op::offload_gradient:
    case Op::fetch_state:
    case Op::offload_state:
    case Op::offload_stash:
    case Op::fetch_stash: break;
  }
  fail(ExitCode::bug, "the engine cannot execute {}", name_of(action.op));
}

void Engine::perform(Run& run, const Action& action, Unit& unit) {
  at::Tensor made;  // for the slot that the action acquires
  if (action.op == Op::reshard) {
    if (!action.slots.acquires.empty()) made = unit.keep_weights();
    unit.lend_weights({});
  } else if (action.op == Op::finish_gradient) {
    const int own = (action.slots.releases.empty() ? action.slots.writes : action.slots.releases).front();
    const bool lent = run.slots.slot(own).kind == SlotKind::local_gradient;
    if (lent) unit.resume_local_gradient(run.slots.at(own).value, own);
    unit.finish_gradients();
    if (session_.take_injected_nan()) unit.local_gradient()[0] = not_a_number;  // not the padding, which stays
    if (search_) search_->look_at_gradient(unit, run.program.micro_batches - 1);
    if (!action.slots.acquires.empty()) {
      made = unit_memory(unit, unit.whole_length(), scalar_type(reduce_dtype_), "cast gradient");
      made.copy_(unit.local_gradient());
      if (lent) unit.end_local_gradient(own);
    }
  } else if (action.op == Op::add_gradient) {
    unit.add_gradient_of_peer(run.slots.at(SlotKind::peer_gradient, action.subject, no_micro_batch).value);
  } else if (action.op == Op::gradient_norm) {
    const std::vector<Rank> holders = group_along(run.program.mesh, session_.world().rank(), action.group);
    const auto share = static_cast<int>(std::ranges::find(holders, session_.world().rank()) - holders.begin());
    const auto shares = static_cast<int>(holders.size());
    add_squared_norm(unit, numbers_.at(StepNumber::squared_norm), share, shares);
    if (run.order->gradients) add_gradient(*run.order->gradients, unit, share, shares);
  } else if (action.op == Op::finish_average) {
    unit.master().div_(cell_count(run.program));
    if (session_.take_injected_nan()) unit.master().fill_(not_a_number);
    unit.update_compute_copy();
  } else {
    if (session_.take_injected_nan()) run.gradient_scale = not_a_number;
    run.irrevocable = true;
    const int fetched = slot_among(run.ranks, action.slots.writes, SlotKind::fetched_state);
    if (fetched >= 0) unit.lend_update(run.slots.at(fetched).value);
    optimizer_.update(unit, run.order->step - run.order->skipped, run.order->lr, run.gradient_scale);
    if (fetched >= 0) unit.lend_update({});
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
  if (run.texts != nullptr && block.kind() == BlockDescription::Kind::head) {
    text_logits(run, input);
    return record(Op::forward, block, mb);
  }
  std::shared_ptr<SavedMemory> saved;  // of a stash that goes to host memory
  if (keeps && run.slots.has(SlotKind::host_stash, action.subject, mb)) saved = std::make_shared<SavedMemory>();
  const bool leaves = run.slots.has(SlotKind::kept, action.subject, mb);
  const auto replay = std::make_shared<Replay>();
  if (leaves) replay->keeps = keeps_of(run.program, index);
  at::Tensor output;
  {
    const SavedMemory::Collection collection(saved.get());
    output = block.forward(input, run.batches[static_cast<std::size_t>(mb)], replay.get());
  }
  if (saved) saved->leave({input, output});
  count_choices(block, *replay);
  record(Op::forward, block, mb);
  if (block.kind() == BlockDescription::Kind::head) {
    const at::Tensor loss = output.detach();
    if (session_.take_injected_nan()) loss.fill_(not_a_number);
    if (search_ && run.order != nullptr) search_->look_at_forward(block, index, mb, loss);
    numbers_.add(StepNumber::loss, loss, counts_loss());  // once; what is wrong wherever it is
    if (replay->correct.defined() && counts_loss()) numbers_.add(StepNumber::correct, replay->correct, true);
  } else {
    if (search_ && run.order != nullptr) search_->look_at_forward(block, index, mb, output);
    run.slots.acquire(SlotKind::boundary, boundary_subject(index + 1), mb, {.input = {}, .value = output.detach()});
  }
  if (keeps) run.slots.acquire(SlotKind::stash, action.subject, mb, {.input = input, .value = output, .saved = saved});
  if (leaves) run.slots.acquire(SlotKind::kept, action.subject, mb, {.input = {}, .value = {}, .replay = replay});
}

void Engine::text_logits(Run& run, const at::Tensor& input) {
  at::Tensor rows = input;
  if (run.program.row_shares > 1) rows = tensor_lane()->gather_rows(input, run.rows_of.front());
  const std::vector<std::int64_t>& segments = run.texts->batch.documents;
  std::vector<at::Tensor> last;  // of each segment
  for (std::size_t s = 1; s < segments.size(); ++s) last.push_back(rows.narrow(0, segments[s] - 1, 1));
  run.logits = model_.head().logits(last.size() == 1 ? last.front() : at::cat(last)).to(at::kDouble);
  const bool are_read = std::ranges::find(run.texts->draws, true) != run.texts->draws.end();
  if (are_read && session_.take_injected_nan()) run.logits.fill_(not_a_number);
}

void Engine::count_choices(const Block& block, const Replay& told) {
  if (!told.loads.defined() || !(shares_rows(tensor_lane()) || is_first_of_sharers())) return;
  const ModelConfig& config = model_.config();
  numbers_.add_loads(config.expert_layers(block.description().layer) * config.experts.count, told.loads);
  if (told.aux_loss.defined() && place_.index() == 0 && is_first_of_sharers())
    numbers_.add(StepNumber::aux_loss, told.aux_loss, true);  // ranks that share samples have the same
}

void Engine::recompute(Run& run, const Action& action) {
  const int index = action.subject.index;
  const MicroBatch mb = action.micro_batch;
  Block& block = model_.block(static_cast<std::size_t>(index));
  const at::Tensor input =
      run.slots.at(SlotKind::boundary, boundary_subject(index), mb).value.detach().requires_grad_(true);
  const c10::AutoGradMode grad_mode(true);
  Replay replay;  // taken: the stash has it from now on, which backward lets go of as it reads it
  if (const int kept = slot_among(run.ranks, action.slots.writes, SlotKind::kept); kept >= 0)
    replay = std::exchange(*run.slots.at(kept).replay, {});
  replay.pass = Replay::Pass::repeated;
  replay.keeps = {};
  const at::Tensor output = block.forward(input, run.batches[static_cast<std::size_t>(mb)], &replay);
  record(Op::recompute, block, mb);
  run.slots.acquire(SlotKind::stash, action.subject, mb, {input, output});
}

void Engine::backward(Run& run, const Action& action) {
  const int index = action.subject.index;
  const MicroBatch mb = action.micro_batch;
  lend_gradients(run, action);
  const Block& block = model_.block(static_cast<std::size_t>(index));
  const int fetched = slot_among(run.ranks, action.slots.releases, SlotKind::fetched_stash);
  const SlotContent& stash =
      run.slots.at(fetched < 0 ? slot_among(run.ranks, action.slots.releases, SlotKind::stash) : fetched);
  at::Tensor seed;
  if (block.kind() == BlockDescription::Kind::head) {
    const auto valid_tokens = static_cast<double>(run.order->valid_tokens);
    // Of a cell by itself: the mean over cells is the gradient of all.
    const double scale = run.order->loss_scale * cell_count(run.program);
    seed = at::full({}, valid_tokens > 0 ? scale / valid_tokens : 0, stash.value.options());
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
  if (search_ && index > 0) search_->look_at_backward(block, index, mb, stash.input.grad());
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

}  // namespace lockstep
