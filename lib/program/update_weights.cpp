#include "base/error.hpp"
#include "program/passes.hpp"
#include "program/rewriter.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {

namespace {

/// Where a unit's gradient becomes what the optimizer reads.
struct Completion {
  std::size_t position = 0;       // of the last action that it goes through
  std::vector<AxisName> holders;  // axes along which it was summed, or is computed alike, and so is held alike
  bool counts_here = true;        // its norm; of a unit on two stages only that of the first does
};

/// By unit of the list.
std::map<int, Completion> completions_of(const std::vector<Action>& actions, const ModelPlan& plan) {
  std::map<int, Completion> completions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (action.subject.kind != Subject::Kind::unit || action.op == Op::unshard || action.op == Op::reshard) continue;
    Completion& completion = completions[action.subject.index];
    if (completes_gradient(action.op)) completion.position = i;
    if (action.op == Op::all_reduce) completion.holders = action.group;
    if (action.op == Op::send_gradient && action.offset < 0) completion.counts_here = false;
  }
  for (auto& [unit, completion] : completions)
    for (const AxisName& axis : plan.units[static_cast<std::size_t>(unit)].alike) completion.holders.push_back(axis);
  return completions;
}

/// The update of a unit, in whose middle ranks speak that have parts of its matrices.
Action update_of(Subject subject, const ModelPlan& plan) {
  return updating(make(Op::optimizer, subject), plan.units[static_cast<std::size_t>(subject.index)]);
}

/// Of the gradient that `last`, now at `position`, completes.
Action norm_after(const Action& last, int position, const Completion& completion) {
  Action norm = make(Op::gradient_norm, last.subject);
  norm.group = completion.holders;
  if (last.op != Op::finish_gradient) norm.waits = {position};
  return norm;
}

/// The completion of which the action at `position` is the end; null if it is of none.
const Completion* ended_at(std::size_t position, const Action& action, const std::map<int, Completion>& completions) {
  if (!completes_gradient(action.op)) return nullptr;
  const Completion& completion = completions.at(action.subject.index);
  return completion.position == position ? &completion : nullptr;
}

std::vector<Action> updated_after_heartbeat(const std::vector<Action>& actions, const StepProgram& program,
                                            const ModelPlan& plan, const UpdateOptions& options, bool norms_early) {
  Rewriter out;
  const std::map<int, Completion> completions = completions_of(actions, plan);
  std::vector<Action> norms;  // of reduced gradients, in the order in which these become complete
  const auto add_norms = [&] {
    for (Action& norm : std::exchange(norms, {})) out.add(std::move(norm));
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const int position = out.keep(actions[i]);
    const Completion* const completion = ended_at(i, actions[i], completions);
    if (completion == nullptr || !completion->counts_here) continue;
    if (norms_early) add_norms();
    Action norm = norm_after(actions[i], position, *completion);
    if (actions[i].op == Op::finish_gradient)
      out.add(std::move(norm));  // at once: what is small is still in cache
    else
      norms.push_back(std::move(norm));
  }
  add_norms();
  std::vector<Action> list = std::move(out).list();
  const auto add = [&](Action action) {
    list.push_back(std::move(action));
    return static_cast<int>(list.size()) - 1;
  };
  if (options.clips && cell_count(program) > 1 && cell_count(program) < world_size(program.mesh))
    add(make_collective(Op::reduce_norm, {}, cell_axes(program), sizeof(double), after_compute(list)));
  Waits decided{
      add(make_collective(Op::heartbeat, {}, all_axes(program.mesh), options.heartbeat_bytes, after_compute(list)))};
  const auto add_decided = [&](Action action) {  // what comes first on the compute lane waits, the rest follows it
    action.waits = std::exchange(decided, {});
    add(std::move(action));
  };
  if (options.clips) add_decided(make(Op::clip, {}));
  for (const auto& [unit, completion] : completions) add_decided(update_of(unit_subject(unit), plan));
  return list;
}

std::vector<Action> updated_in_backward(const std::vector<Action>& actions, const StepProgram& program,
                                        const ModelPlan& plan, const UpdateOptions& options) {
  Rewriter out;
  const std::map<int, Completion> completions = completions_of(actions, plan);
  std::vector<Action> pending;  // norm and optimizer of a gradient that is being reduced
  const auto add_pending = [&] {
    for (Action& action : std::exchange(pending, {})) out.add(std::move(action));
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const int position = out.keep(actions[i]);
    const Completion* const completion = ended_at(i, actions[i], completions);
    if (completion == nullptr) continue;
    if (actions[i].op != Op::finish_gradient) add_pending();
    Action optimizer = update_of(actions[i].subject, plan);
    Action norm = norm_after(actions[i], position, *completion);
    if (!completion->counts_here) optimizer.waits = norm.waits;
    std::vector<Action> update;
    if (completion->counts_here) update.push_back(std::move(norm));
    update.push_back(std::move(optimizer));
    if (actions[i].op == Op::finish_gradient)
      for (Action& action : update) out.add(std::move(action));
    else
      pending = std::move(update);
  }
  add_pending();
  out.add(
      make_collective(Op::heartbeat, {}, all_axes(program.mesh), options.heartbeat_bytes, after_compute(out.so_far())));
  return std::move(out).list();
}

}  // namespace

StepProgram update(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options,
                   const OffloadOptions& offload) {
  invariant(!options.in_backward || !options.clips, "an update in backward does not clip gradients");
  StepProgram updated = program;
  if (std::ranges::any_of(plan.units, [](const UnitPlan& unit) { return !unit.update_exchanges.empty(); }))
    for (const UnitPlan& unit : plan.units) updated.update_exchanges.push_back(unit.update_exchanges);
  return rewritten(updated, [&](const std::vector<Action>& actions) {
    return options.in_backward ? updated_in_backward(actions, program, plan, options)
                               : updated_after_heartbeat(actions, program, plan, options, offload.shards);
  });
}

}  // namespace lockstep
