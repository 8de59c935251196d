#include "program/passes.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {

namespace {

/// Writes a new list while reading an old one; the waits of kept actions follow them to their new positions.
class Rewriter {
 public:
  /// Appends the next action of the old list.
  int keep(Action action) {
    for (int& wait : action.waits) wait = new_position_.at(static_cast<std::size_t>(wait));
    return place(std::move(action));
  }
  /// Leaves out the next action of the old list; who waited for it waits for the new action at `position`.
  void replace_by(int position) { new_position_.push_back(position); }
  /// Appends an action that the old list did not have; its waits are positions in the new list.
  int add(Action action) {
    list_.push_back(std::move(action));
    return static_cast<int>(list_.size()) - 1;
  }
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
  action.lane = Lane::reduction;
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

StepProgram on_all_ranks(std::string name, const Mesh& mesh, int micro_batches) {
  if (micro_batches < 1)
    fail(ExitCode::usage, "a step of {} micro-batches does nothing: it needs at least 1", micro_batches);
  StepProgram program;
  program.name = std::move(name);
  program.mesh = mesh;
  program.micro_batches = micro_batches;
  RankClass all;
  all.ranks.resize(static_cast<std::size_t>(world_size(mesh)));
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  program.classes.push_back(std::move(all));
  return program;
}

/// The position of the last action on the compute lane, as waits of an action on another lane.
Waits after_compute(const std::vector<Action>& actions) {
  for (std::size_t i = actions.size(); i-- > 0;)
    if (actions[i].lane == Lane::compute) return {static_cast<int>(i)};
  return {};
}

}  // namespace

StepProgram schedule_training(const Mesh& mesh, int micro_batches) {
  StepProgram program = on_all_ranks("train", mesh, micro_batches);
  for (MicroBatch mb = 0; mb < micro_batches; ++mb) {
    program.classes.front().actions.push_back(make(Op::forward, stage_subject(0), mb));
    program.classes.front().actions.push_back(make(Op::backward, stage_subject(0), mb));
  }
  return program;
}

StepProgram schedule_evaluation(const Mesh& mesh, int micro_batches) {
  StepProgram program = on_all_ranks("eval", mesh, micro_batches);
  for (MicroBatch mb = 0; mb < micro_batches; ++mb)
    program.classes.front().actions.push_back(make(Op::forward, stage_subject(0), mb));
  return program;
}

StepProgram expand(const StepProgram& program, const ModelPlan& plan) {
  invariant(!plan.blocks.empty(), "a model has blocks");
  const int blocks = static_cast<int>(plan.blocks.size());
  StepProgram result = rewritten(program, [&](const std::vector<Action>& actions) {
    Rewriter out;
    for (const Action& action : actions) {
      if (action.subject.kind != Subject::Kind::stage) {
        out.keep(action);
        continue;
      }
      invariant(action.subject.index == 0, "a model is one stage");
      int last = 0;
      for (int i = 0; i < blocks; ++i) {
        const int block = action.op == Op::forward ? i : blocks - 1 - i;
        last = out.add(make(action.op, block_subject(block), action.micro_batch));
      }
      out.replace_by(last);
    }
    return std::move(out).list();
  });
  for (const BlockPlan& block : plan.blocks) result.block_names.push_back(block.name);
  for (const UnitPlan& unit : plan.units) result.unit_names.push_back(unit.name);
  return result;
}

StepProgram recompute(const StepProgram& program, const ModelPlan& plan, RecomputePolicy policy) {
  if (policy == RecomputePolicy::none) return program;
  return rewritten(program, [&](const std::vector<Action>& actions) {
    Rewriter out;
    for (const Action& action : actions) {
      if (action.op == Op::backward && plan.blocks[static_cast<std::size_t>(action.subject.index)].recomputable)
        out.add(make(Op::recompute, action.subject, action.micro_batch));
      out.keep(action);
    }
    return std::move(out).list();
  });
}

StepProgram data_parallel(const StepProgram& program, const ModelPlan& plan, const std::vector<AxisName>& axes) {
  std::vector<AxisName> group;
  int ranks = 1;
  for (const Axis& axis : program.mesh.axes) {
    if (std::find(axes.begin(), axes.end(), axis.name) == axes.end()) continue;
    group.push_back(axis.name);
    ranks *= axis.size;
  }
  return rewritten(program, [&](const std::vector<Action>& actions) {
    const auto adds_to = [](const Action& action, const UnitPlan& unit) {
      return action.op == Op::backward &&
             std::find(unit.blocks.begin(), unit.blocks.end(), action.subject.index) != unit.blocks.end();
    };
    std::vector<std::vector<int>> completed(actions.size());  // units whose last backward stands at a position
    for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
      const auto last = std::find_if(actions.rbegin(), actions.rend(),
                                     [&](const Action& action) { return adds_to(action, plan.units[unit]); });
      invariant(last != actions.rend(), "every unit has a backward that adds to its gradient");
      completed[static_cast<std::size_t>(actions.rend() - last) - 1].push_back(static_cast<int>(unit));
    }
    Rewriter out;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      out.keep(actions[i]);
      for (const int unit : completed[i]) {
        const int finished = out.add(make(Op::finish_gradient, unit_subject(unit)));
        if (ranks > 1)
          out.add(make_collective(Op::all_reduce, unit_subject(unit), group,
                                  plan.units[static_cast<std::size_t>(unit)].gradient_bytes, {finished}));
      }
    }
    return std::move(out).list();
  });
}

StepProgram update(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options) {
  return rewritten(program, [&](const std::vector<Action>& actions) {
    Rewriter out;
    std::vector<Action> norms;  // of reduced gradients, in the order in which these become complete
    for (const Action& action : actions) {
      const int position = out.keep(action);
      if (action.op == Op::finish_gradient) {
        const bool reduced = std::ranges::any_of(actions, [&](const Action& other) {
          return other.op == Op::all_reduce && other.subject == action.subject;
        });
        if (!reduced) out.add(make(Op::gradient_norm, action.subject));  // at once: what is small is still in cache
      } else if (action.op == Op::all_reduce) {
        Action norm = make(Op::gradient_norm, action.subject);
        norm.group = action.group;
        norm.waits = {position};
        norms.push_back(std::move(norm));
      }
    }
    for (Action& norm : norms) out.add(std::move(norm));
    std::vector<Action> list = std::move(out).list();
    const auto add = [&](Action action) {
      list.push_back(std::move(action));
      return static_cast<int>(list.size()) - 1;
    };
    const int heartbeat =
        add(make_collective(Op::heartbeat, {}, all_axes(program.mesh), options.heartbeat_bytes, after_compute(list)));
    Waits decided{heartbeat};  // what comes first on the compute lane waits, the rest follows it
    const auto add_decided = [&](Action action) {
      action.waits = std::exchange(decided, {});
      add(std::move(action));
    };
    if (options.clips) add_decided(make(Op::clip, {}));
    for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
      add_decided(make(Op::optimizer, unit_subject(static_cast<int>(unit))));
    }
    return list;
  });
}

StepProgram reduce_loss(const StepProgram& program, std::int64_t bytes) {
  return rewritten(program, [&](const std::vector<Action>& actions) {
    std::vector<Action> list = actions;
    list.push_back(make_collective(Op::reduce_loss, {}, all_axes(program.mesh), bytes, after_compute(actions)));
    return list;
  });
}

}  // namespace lockstep
