#include "program/work_times.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 14> kinds{"forward",   "recompute", "backward", "head", "gather",
                                                 "gradient",  "transfer",  "waiting",  "norm", "optimizer",
                                                 "heartbeat", "reduction", "average",  "copy"};

std::string_view kind_of(const StepProgram& program, const Action& action) {
  const bool head = action.subject == block_subject(static_cast<int>(program.block_names.size()) - 1);
  switch (action.op) {
    case Op::forward: return head ? "head" : "forward";
    case Op::recompute: return "recompute";
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight: return head ? "head" : "backward";
    case Op::receive_forward:
    case Op::send_forward:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::send_gradient:
    case Op::receive_gradient: return "transfer";
    case Op::unshard:
    case Op::reshard: return "gather";
    case Op::finish_gradient:
    case Op::add_gradient: return "gradient";
    case Op::reduce_scatter:
    case Op::all_reduce: return "reduction";
    case Op::gradient_norm:
    case Op::clip: return "norm";
    case Op::optimizer: return "optimizer";
    case Op::average_weights:
    case Op::finish_average: return "average";
    case Op::reduce_norm:
    case Op::heartbeat:
    case Op::reduce_loss:
    case Op::draw_tokens: return "heartbeat";
    case Op::fetch_weights:
    case Op::offload_gradient:
    case Op::fetch_state:
    case Op::offload_state:
    case Op::offload_stash:
    case Op::fetch_stash: return "copy";
  }
  return "forward";
}

}  // namespace

WorkTimes work_times(const StepProgram& program, Rank rank, const std::vector<Interval>& times) {
  const std::vector<Action>& actions = program.of(rank);
  invariant(times.size() == actions.size(), "a measured step has a time for each action");
  WorkTimes result;
  for (const std::string_view kind : kinds) result.emplace_back(kind, 0.0);
  const auto add = [&](std::string_view kind, double seconds) {
    std::ranges::find(result, kind, &WorkTimes::value_type::first)->second += seconds;
  };
  double free_s = 0;  // when what came before, but for what runs beside it, had ended
  for (std::size_t i = 0; i < actions.size(); ++i) {
    add(kind_of(program, actions[i]), times[i].end_s - times[i].begin_s);
    if (overlaps_compute(actions[i].op)) continue;
    if (i > 0 && !actions[i].waits.empty()) add("waiting", times[i].begin_s - free_s);
    free_s = times[i].end_s;
  }
  return result;
}

}  // namespace lockstep
