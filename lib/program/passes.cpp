#include "program/passes.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

/// Writes a new list while reading an old one; the waits of kept actions follow them to their new positions.
class Rewriter {
 public:
  /// Appends the next action of the old list; it also waits for these of the new one.
  int keep(Action action, const Waits& more = {}) {
    for (int& wait : action.waits) wait = new_position_.at(static_cast<std::size_t>(wait));
    for (const int wait : more)
      if (std::ranges::find(action.waits, wait) == action.waits.end()) action.waits.push_back(wait);
    std::ranges::sort(action.waits);
    return place(std::move(action));
  }
  /// Leaves out the next action of the old list; who waited for it waits for the new action at `position`.
  void replace_by(int position) { new_position_.push_back(position); }
  /// Appends an action that the old list did not have; its waits are positions in the new list.
  int add(Action action) {
    list_.push_back(std::move(action));
    return static_cast<int>(list_.size()) - 1;
  }
  const std::vector<Action>& so_far() const { return list_; }
  std::vector<Action> list() && { return std::move(list_); }

 private:
  int place(Action action) {
    new_position_.push_back(add(std::move(action)));
    return new_position_.back();
  }
  std::vector<Action> list_;
  std::vector<int> new_position_;  // by position in the old list
};

Action make(Op op, Subject subject, MicroBatch micro_batch = no_micro_batch) {
  Action action;
  action.op = op;
  action.subject = subject;
  action.micro_batch = micro_batch;
  return action;
}

Action make_collective(Op op, Subject subject, std::vector<AxisName> group, std::int64_t bytes, Waits waits) {
  Action action = make(op, subject);
  action.lane = facts_of(op).lane;
  action.group = std::move(group);
  action.bytes = bytes;
  action.waits = std::move(waits);
  return action;
}

std::vector<AxisName> all_axes(const Mesh& mesh) {
  std::vector<AxisName> names;
  for (const Axis& axis : mesh.axes) names.push_back(axis.name);
  return names;
}

/// Applies `rewrite` to the list of every class.
template <class Rewrite>
StepProgram rewritten(const StepProgram& program, Rewrite&& rewrite) {
  StepProgram result = program;
  for (RankClass& ranks : result.classes) {
    invariant(ranks.slots.empty(), "allocate is the last pass");
    ranks.actions = rewrite(std::as_const(ranks.actions));
  }
  return result;
}

/// The position of the last action on the compute lane, as waits of an action on another lane.
Waits after_compute(const std::vector<Action>& actions) {
  for (std::size_t i = actions.size(); i-- > 0;)
    if (actions[i].lane == Lane::compute) return {static_cast<int>(i)};
  return {};
}

}  // namespace

std::vector<bool> recomputed_blocks(const ModelPlan& plan, const RecomputePolicy& policy) {
  std::vector<bool> recomputed;
  int number = 0;  // of the next block that may be
  for (const BlockPlan& block : plan.blocks)
    recomputed.push_back(block.recomputable && policy.every > 0 && number++ % policy.every == 0);
  return recomputed;
}

StepProgram recompute(const StepProgram& program, const ModelPlan& plan, const RecomputePolicy& policy) {
  if (policy == RecomputePolicy::none) return program;
  const std::vector<bool> recomputed = recomputed_blocks(plan, policy);
  return rewritten(program, [&](const std::vector<Action>& actions) {
    Rewriter out;
    for (const Action& action : actions) {
      const bool first = action.op == Op::backward || action.op == Op::backward_input;
      if (first && recomputed[static_cast<std::size_t>(action.subject.index)])
        out.add(make(Op::recompute, action.subject, action.micro_batch));
      out.keep(action);
    }
    return std::move(out).list();
  });
}

namespace {

bool uses(const Action& action, const UnitPlan& unit) {
  return action.subject.kind == Subject::Kind::block &&
         std::ranges::find(unit.blocks, action.subject.index) != unit.blocks.end();
}

/// The time from one gathering of a unit to its end.
struct Span {
  int unit = 0;
  std::size_t first = 0, last = 0;  // positions of uses
  bool again = false;               // the unit was gathered before in this step
};

/// Spans in the order in which they begin.
std::vector<Span> spans_of(const std::vector<Action>& actions, const ModelPlan& plan, const ShardOptions& options) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    if (!plan.units[i].is_cut()) continue;
    bool fresh = true;  // another block has run since the last use, after which the weights were let go
    bool lets_go = false;
    for (std::size_t position = 0; position < actions.size(); ++position) {
      if (actions[position].subject.kind != Subject::Kind::block || actions[position].op == Op::backward_weight)
        continue;  // reads no weight
      if (!uses(actions[position], plan.units[i])) {
        fresh = fresh || lets_go;
        continue;
      }
      if (fresh)
        spans.push_back(
            {static_cast<int>(i), position, position, !spans.empty() && spans.back().unit == static_cast<int>(i)});
      spans.back().last = position;
      fresh = false;
      const bool forward = actions[position].op == Op::forward;
      lets_go = forward ? options.reshard_after_forward : options.reshard_after_backward;
    }
  }
  std::ranges::stable_sort(spans, {}, &Span::first);
  return spans;
}

}  // namespace

StepProgram gather_weights(const StepProgram& program, const ModelPlan& plan, const ShardOptions& options) {
  return rewritten(program, [&](const std::vector<Action>& actions) {
    const std::vector<Span> spans = spans_of(actions, plan, options);
    std::vector<int> gathered(plan.units.size(), -1);  // by unit: where the gathering of the span that is alive stands
    std::size_t begun = 0, issued = 0;                 // spans
    Rewriter out;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::size_t before = begun;
      while (begun < spans.size() && spans[begun].first == i) ++begun;
      const std::size_t ahead = begun == before ? issued : begun + static_cast<std::size_t>(options.prefetch);
      for (; issued < std::min(ahead, spans.size()); ++issued) {
        const int unit = spans[issued].unit;
        const UnitPlan& of = plan.units[static_cast<std::size_t>(unit)];
        int& place = gathered[static_cast<std::size_t>(unit)];
        if (place >= 0) break;  // the whole of an earlier span is still there
        const bool kept = spans[issued].again && !of.kept_axes.empty();
        const std::int64_t own_bytes = of.compute_bytes > 0 ? of.compute_bytes : of.master_bytes;
        place = out.add(make_collective(Op::unshard, unit_subject(unit), kept ? of.kept_axes : of.shard_axes,
                                        kept ? of.kept_bytes : own_bytes,
                                        after_compute(out.so_far())));  // not before memory was let go
      }
      Waits waits;
      for (const Span& span : spans)
        if (span.first == i) waits.push_back(gathered[static_cast<std::size_t>(span.unit)]);
      out.keep(actions[i], waits);
      for (const Span& span : spans) {
        if (span.last != i) continue;
        Action reshard = make(Op::reshard, unit_subject(span.unit));
        const bool returns =
            std::ranges::any_of(spans, [&](const Span& other) { return other.unit == span.unit && other.again; });
        if (returns && !span.again) reshard.group = plan.units[static_cast<std::size_t>(span.unit)].kept_axes;
        out.add(std::move(reshard));
        gathered[static_cast<std::size_t>(span.unit)] = -1;
      }
    }
    return std::move(out).list();
  });
}

namespace {

/// Axes of the mesh among `axes` and not among `without`, if there are several ranks along them.
std::vector<AxisName> axes_of(const Mesh& mesh, const std::vector<AxisName>& axes,
                              const std::vector<AxisName>& without = {}) {
  std::vector<AxisName> group;
  int ranks = 1;
  for (const Axis& axis : mesh.axes) {
    if (std::ranges::find(axes, axis.name) == axes.end() || std::ranges::find(without, axis.name) != without.end())
      continue;
    group.push_back(axis.name);
    ranks *= axis.size;
  }
  return ranks > 1 ? group : std::vector<AxisName>{};
}

/// Whether a unit's gradient is reduced after each of several micro-batches.
bool reduces_each(const UnitPlan& unit, const std::vector<AxisName>& replicas, Accumulate accumulate) {
  switch (accumulate) {
    case Accumulate::whole: return false;
    case Accumulate::shards: return unit.is_cut();
    case Accumulate::sums: return unit.is_cut() || !replicas.empty();
  }
  throw Error(ExitCode::bug, "gradients accumulate in a way without a name");
}

/// Contributions to a unit's gradient that are finished and summed at once.
struct Gradient {
  int unit = 0;
  MicroBatch micro_batch = no_micro_batch;  // none: of all of them
  bool last = true;                         // of the unit in this step
};

}  // namespace

StepProgram reduce_gradients(const StepProgram& program, const ModelPlan& plan, const std::vector<AxisName>& axes,
                             const ShardOptions& options) {
  return rewritten(program, [&](const std::vector<Action>& actions) {
    std::vector<std::vector<Gradient>> begun(actions.size()), completed(actions.size());  // by position of a backward
    const auto replicas_of = [&](const UnitPlan& unit) { return axes_of(program.mesh, axes, unit.shard_axes); };
    for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
      if (!plan.units[unit].trained) continue;
      const bool each = program.micro_batches > 1 &&
                        reduces_each(plan.units[unit], replicas_of(plan.units[unit]), options.accumulate);
      std::map<MicroBatch, std::pair<std::size_t, std::size_t>> ends;  // first and last backward
      std::size_t last = 0;
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (!adds_to_gradients(actions[i].op) || !uses(actions[i], plan.units[unit])) continue;
        const auto found = ends.try_emplace(each ? actions[i].micro_batch : no_micro_batch, i, i).first;
        last = found->second.second = i;
      }
      for (const auto& [micro_batch, range] : ends) {
        const Gradient gradient{static_cast<int>(unit), micro_batch, range.second == last};
        begun[range.first].push_back(gradient);
        completed[range.second].push_back(gradient);
      }
    }
    Rewriter out;
    std::vector<int> reduced, summed;  // of micro-batches: where whole gradients end, and where shards do
    const auto all_but_one = [](const std::vector<int>& ends) {
      return ends.size() > 1 ? Waits{ends[ends.size() - 2]} : Waits{};
    };
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool takes_memory = std::ranges::any_of(
          begun[i], [](const Gradient& gradient) { return gradient.micro_batch != no_micro_batch; });
      out.keep(actions[i], takes_memory ? all_but_one(reduced) : Waits{});
      for (const Gradient& gradient : completed[i]) {
        const UnitPlan& unit = plan.units[static_cast<std::size_t>(gradient.unit)];
        const Subject subject = unit_subject(gradient.unit);
        const std::vector<AxisName> replicas = replicas_of(unit);
        const bool of_each = gradient.micro_batch != no_micro_batch;
        const bool sums_each = of_each && options.accumulate == Accumulate::sums;
        Waits finished{out.add(make(Op::finish_gradient, subject, gradient.micro_batch))};
        if (unit.is_cut()) {
          Action scatter = make_collective(Op::reduce_scatter, subject, unit.shard_axes, unit.reduce_bytes,
                                           std::exchange(finished, {}));
          scatter.micro_batch = gradient.micro_batch;
          if (sums_each && !replicas.empty())
            for (const int wait : all_but_one(summed)) scatter.waits.insert(scatter.waits.begin(), wait);
          finished = {out.add(std::move(scatter))};
          if (of_each) reduced.push_back(finished.front());
        }
        if (replicas.empty() || !(sums_each || gradient.last)) continue;
        Action sum = make_collective(Op::all_reduce, subject, replicas, unit.reduce_shard_bytes, std::move(finished));
        if (sums_each) sum.micro_batch = gradient.micro_batch;
        if (unit.is_cut()) sum.lane = Lane::replica;
        const int end = out.add(std::move(sum));
        if (sums_each) (unit.is_cut() ? summed : reduced).push_back(end);
      }
    }
    return std::move(out).list();
  });
}

namespace {

/// Whether the action is the last that a unit's gradient goes through on its way to the optimizer, as far as it is
/// known.
bool completes_gradient(Op op) {
  return op == Op::finish_gradient || op == Op::reduce_scatter || op == Op::all_reduce || op == Op::add_gradient;
}

}  // namespace

StepProgram sum_over_stages(const StepProgram& program, const ModelPlan& plan, const std::vector<PipelinePart>& parts) {
  std::vector<std::vector<int>> holders(plan.units.size());  // pipeline ranks, ascending
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    for (const int unit : parts[rank].units) holders[static_cast<std::size_t>(unit)].push_back(static_cast<int>(rank));
  StepProgram result = program;
  for (RankClass& ranks : result.classes) {
    const int here = coordinate(program.mesh, ranks.ranks.front(), pipeline_axis);
    for (std::size_t unit = 0; unit < holders.size(); ++unit) {
      if (holders[unit].size() < 2 || !plan.units[unit].trained ||
          std::ranges::find(holders[unit], here) == holders[unit].end())
        continue;
      const bool first = holders[unit].front() == here;
      const auto transfer = [&](Op op) {
        Action action = make(op, unit_subject(static_cast<int>(unit)));
        action.lane = facts_of(op).lane;
        action.group = {pipeline_axis};
        action.offset = (first ? holders[unit].back() : holders[unit].front()) - here;
        action.bytes = plan.units[unit].gradient_bytes;
        if (!is_send(op)) action.peer_lane = facts_of(counterpart_of(op)).lane;
        for (std::size_t i = ranks.actions.size(); i-- > 0 && action.waits.empty();)
          if (completes_gradient(ranks.actions[i].op) && ranks.actions[i].subject == action.subject)
            action.waits = {static_cast<int>(i)};
        ranks.actions.push_back(std::move(action));
        return static_cast<int>(ranks.actions.size()) - 1;
      };
      // One sends while the other receives, so that it works out however few operations are under way at once.
      Waits told{transfer(first ? Op::send_gradient : Op::receive_gradient)};
      told.push_back(transfer(first ? Op::receive_gradient : Op::send_gradient));
      Action add = make(Op::add_gradient, unit_subject(static_cast<int>(unit)));
      add.waits = std::move(told);
      ranks.actions.push_back(std::move(add));
    }
  }
  return result;
}

namespace {

/// Where a unit's gradient becomes what the optimizer reads.
struct Completion {
  std::size_t position = 0;        // of the last action that it goes through
  std::vector<AxisName> replicas;  // axes along which it was summed and is held alike
  bool counts_here = true;         // its norm; of a unit on two stages only that of the first does
};

/// By unit of the list.
std::map<int, Completion> completions_of(const std::vector<Action>& actions) {
  std::map<int, Completion> completions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (action.subject.kind != Subject::Kind::unit || action.op == Op::unshard || action.op == Op::reshard) continue;
    Completion& completion = completions[action.subject.index];
    if (completes_gradient(action.op)) completion.position = i;
    if (action.op == Op::all_reduce) completion.replicas = action.group;
    if (action.op == Op::send_gradient && action.offset < 0) completion.counts_here = false;
  }
  return completions;
}

/// Of the gradient that `last`, now at `position`, completes.
Action norm_after(const Action& last, int position, const Completion& completion) {
  Action norm = make(Op::gradient_norm, last.subject);
  norm.group = completion.replicas;
  if (last.op != Op::finish_gradient) norm.waits = {position};
  return norm;
}

/// The completion of which the action at `position` is the end; null if it is of none.
const Completion* ended_at(std::size_t position, const Action& action, const std::map<int, Completion>& completions) {
  if (!completes_gradient(action.op)) return nullptr;
  const Completion& completion = completions.at(action.subject.index);
  return completion.position == position ? &completion : nullptr;
}

std::vector<Action> updated_after_heartbeat(const std::vector<Action>& actions, const Mesh& mesh,
                                            const UpdateOptions& options) {
  Rewriter out;
  const std::map<int, Completion> completions = completions_of(actions);
  std::vector<Action> norms;  // of reduced gradients, in the order in which these become complete
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const int position = out.keep(actions[i]);
    const Completion* const completion = ended_at(i, actions[i], completions);
    if (completion == nullptr || !completion->counts_here) continue;
    Action norm = norm_after(actions[i], position, *completion);
    if (actions[i].op == Op::finish_gradient)
      out.add(std::move(norm));  // at once: what is small is still in cache
    else
      norms.push_back(std::move(norm));
  }
  for (Action& norm : norms) out.add(std::move(norm));
  std::vector<Action> list = std::move(out).list();
  const auto add = [&](Action action) {
    list.push_back(std::move(action));
    return static_cast<int>(list.size()) - 1;
  };
  Waits decided{add(make_collective(Op::heartbeat, {}, all_axes(mesh), options.heartbeat_bytes, after_compute(list)))};
  const auto add_decided = [&](Action action) {  // what comes first on the compute lane waits, the rest follows it
    action.waits = std::exchange(decided, {});
    add(std::move(action));
  };
  if (options.clips) add_decided(make(Op::clip, {}));
  for (const auto& [unit, completion] : completions) add_decided(make(Op::optimizer, unit_subject(unit)));
  return list;
}

std::vector<Action> updated_in_backward(const std::vector<Action>& actions, const Mesh& mesh,
                                        const UpdateOptions& options) {
  Rewriter out;
  const std::map<int, Completion> completions = completions_of(actions);
  std::vector<Action> pending;  // norm and optimizer of a gradient that is being reduced
  const auto add_pending = [&] {
    for (Action& action : std::exchange(pending, {})) out.add(std::move(action));
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const int position = out.keep(actions[i]);
    const Completion* const completion = ended_at(i, actions[i], completions);
    if (completion == nullptr) continue;
    if (actions[i].op != Op::finish_gradient) add_pending();
    Action optimizer = make(Op::optimizer, actions[i].subject);
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
  out.add(make_collective(Op::heartbeat, {}, all_axes(mesh), options.heartbeat_bytes, after_compute(out.so_far())));
  return std::move(out).list();
}

}  // namespace

StepProgram update(const StepProgram& program, const UpdateOptions& options) {
  invariant(!options.in_backward || !options.clips, "what is clipped is updated after the norm of all gradients");
  return rewritten(program, [&](const std::vector<Action>& actions) {
    return (options.in_backward ? updated_in_backward : updated_after_heartbeat)(actions, program.mesh, options);
  });
}

namespace {

/// Ends each list with one small reduction over all ranks.
StepProgram ended_by(Op op, const StepProgram& program, std::int64_t bytes) {
  return rewritten(program, [&](const std::vector<Action>& actions) {
    std::vector<Action> list = actions;
    list.push_back(make_collective(op, {}, all_axes(program.mesh), bytes, after_compute(actions)));
    return list;
  });
}

}  // namespace

StepProgram reduce_loss(const StepProgram& program, std::int64_t bytes) {
  return ended_by(Op::reduce_loss, program, bytes);
}

StepProgram draw_token(const StepProgram& program, std::int64_t bytes) {
  return ended_by(Op::draw_token, program, bytes);
}

}  // namespace lockstep
