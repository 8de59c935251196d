// Where all ranks meet: heartbeat, the sums of an evaluation, the draw of a token.
#include "engine/make_model_plan.hpp"
#include "engine/run.hpp"
#include "tensor/arena.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace lockstep {

namespace {

/// The first of those with the head.
Rank drawing_rank(const StepProgram& program) {
  const Subject head = block_subject(static_cast<int>(program.block_names.size()) - 1);
  Rank first = world_size(program.mesh);
  for (const RankClass& ranks : program.classes)
    if (std::ranges::find(ranks.actions, head, &Action::subject) != ranks.actions.end())
      first = std::min(first, ranks.ranks.front());
  return first;
}

}  // namespace

void Engine::reduce_norm(Run& run, const Action& action) {
  drain(run);
  run.attempt([&] { read_numbers(run); });
  run.clipped_norm_squared = run.squared_norm;
  const auto bytes = std::as_writable_bytes(std::span(&run.clipped_norm_squared, 1));
  transport_.wait(transport_.all_reduce(static_cast<int>(action.lane), transport_.group_along(action.group), bytes,
                                        DType::f64, Reduce::sum));
}

void Engine::heartbeat(Run& run, const Action& action) {
  const int cells = cell_count(run.program);
  drain(run);
  run.attempt([&] { read_numbers(run); });
  HeartbeatData mine;
  mine.loss_sum = run.loss_sum;
  mine.aux_loss_sum = run.aux_loss_sum;
  mine.loads = run.expert_loads;
  mine.grad_norm_squared = run.squared_norm / cells;  // their mean
  if (session_.take_injected_nan()) mine.grad_norm_squared = not_a_number;
  if (counts_batch()) {  // once, however many ranks share a batch
    mine.next_tokens = run.order->next_valid_tokens;
    mine.next_samples = run.order->next_samples;
    mine.next_uses = numbers_of(run.order->next_uses);
  } else {
    mine.next_uses.resize(numbers_of_use * run.order->next_uses.size());
  }
  mine.stop = run.order->stop;
  mine.requests = run.order->requests;
  mine.failure = run.failure;
  const HeartbeatData all = agree(action, mine);
  const auto valid_tokens = static_cast<double>(run.order->valid_tokens);
  const ModelConfig& config = model_.config();
  const auto balanced = static_cast<double>(run.order->samples * config.expert_layers(config.layers));
  run.outcome = {.loss = valid_tokens > 0 ? all.loss_sum / valid_tokens : 0,
                 .aux_loss = config.experts.aux_coefficient > 0 && balanced > 0
                                 ? std::optional(all.aux_loss_sum / balanced)
                                 : std::nullopt,
                 .gradient_norm = std::sqrt(all.grad_norm_squared) / run.order->loss_scale,
                 .updated = std::isfinite(all.loss_sum) && std::isfinite(all.grad_norm_squared),
                 .next_valid_tokens = all.next_tokens,
                 .next_samples = all.next_samples,
                 .next_uses = uses_of(all.next_uses),
                 .stop = all.stop,
                 .requests = all.requests,
                 .expert_loads = all.loads};
  if (cells == 1)
    run.clipped_norm_squared = all.grad_norm_squared;
  else if (cells == world_size(run.program.mesh))
    run.clipped_norm_squared = run.squared_norm;
  run.skips_update = !run.outcome.updated;
  run.irrevocable = true;
}

HeartbeatData Engine::agree(const Action& action, const HeartbeatData& mine) {
  return lockstep::heartbeat(transport_, static_cast<int>(action.lane), transport_.group_along(action.group),
                             session_.world(), mine);
}

void Engine::average(const std::vector<at::Tensor>& buffers, std::int64_t step) {
  session_.enter(Phase::average, step);
  const StepProgram& program = programs_.averaging;
  const int group = transport_.group_along(program.apart);
  if (session_.take_injected_nan() && !buffers.empty()) buffers.front().fill_(not_a_number);
  std::vector<Ticket> tickets;
  for (const at::Tensor& buffer : buffers)
    tickets.push_back(transport_.all_reduce(static_cast<int>(Lane::reduction), group, region_of(buffer),
                                            dtype_of(buffer.scalar_type()), Reduce::sum));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    transport_.wait(tickets[i]);
    buffers[i].div_(cell_count(program));
  }
}

void Engine::reduce_loss(Run& run, const Action& action) {
  drain(run);
  run.attempt([&] { read_numbers(run); });
  HeartbeatData mine;
  mine.loss_sum = run.loss_sum;
  mine.correct = static_cast<std::int64_t>(run.correct);
  mine.tokens = run.tokens;
  mine.failure = run.failure;
  const HeartbeatData all = agree(action, mine);
  run.loss_sum = all.loss_sum;
  run.correct = static_cast<double>(all.correct);
  run.tokens = all.tokens;
}

void Engine::draw_tokens(Run& run, const Action& action) {
  drain(run);
  const std::size_t segments = run.texts->slots.size();
  HeartbeatData mine;
  mine.drawn.resize(static_cast<std::size_t>(action.bytes - heartbeat_bytes) / sizeof(double));  // of any pass alike
  run.irrevocable = false;  // nobody waits in a block any more: all ranks hear of a failure here
  run.attempt([&] {
    invariant(segments * numbers_of_drawn <= mine.drawn.size(), "a pass has as many texts as its program, at most");
    if (session_.world().rank() != drawing_rank(run.program)) return;
    if (std::ranges::find(run.texts->draws, true) == run.texts->draws.end()) return;
    const std::vector<double> logits = values_on_host(run.logits);
    const std::size_t vocabulary = logits.size() / segments;
    for (std::size_t s = 0; s < segments; ++s) {
      if (!run.texts->draws[s]) continue;
      const DrawnToken token = (*run.draw)(s, std::span(logits).subspan(s * vocabulary, vocabulary));
      mine.drawn[numbers_of_drawn * s] = token.id;
      mine.drawn[numbers_of_drawn * s + 1] = token.log_probability;
    }
  });
  mine.failure = run.failure;
  const HeartbeatData all = agree(action, mine);
  for (std::size_t s = 0; s < segments; ++s)
    run.drawn.push_back({.id = static_cast<std::int32_t>(all.drawn[numbers_of_drawn * s]),
                         .log_probability = all.drawn[numbers_of_drawn * s + 1]});
}

}  // namespace lockstep
