#include "base/error.hpp"
#include "program/passes.hpp"
#include "program/rewriter.hpp"

#include <utility>

namespace lockstep {

StepProgram average_weights(const StepProgram& program, const ModelPlan& plan) {
  return rewritten(program, [&](const std::vector<Action>& actions) {
    Rewriter out;
    std::vector<int> waiting;                    // units that were updated before the heartbeat
    std::vector<std::pair<int, int>> under_way;  // units, with where their sums are
    bool decided = false;
    const auto average = [&](int unit) {
      const std::int64_t bytes = plan.units[static_cast<std::size_t>(unit)].master_bytes;
      under_way.emplace_back(unit, out.add(make_collective(Op::average_weights, unit_subject(unit), program.apart,
                                                           bytes, after_compute(out.so_far()))));
    };
    for (const Action& action : actions) {
      out.keep(action);
      if (action.op == Op::heartbeat) {
        decided = true;
        for (const int unit : std::exchange(waiting, {})) average(unit);
      }
      if (action.op != Op::optimizer) continue;
      if (decided)
        average(action.subject.index);
      else
        waiting.push_back(action.subject.index);
    }
    for (const auto& [unit, sum] : under_way) {
      Action finish = make(Op::finish_average, unit_subject(unit));
      finish.waits = {sum};
      out.add(std::move(finish));
    }
    return std::move(out).list();
  });
}

StepProgram keep_own_weights(const StepProgram& program, const ModelPlan& plan, const LocalOptions& options) {
  if (options.axes.empty()) return program;
  StepProgram result = program;
  for (RankClass& ranks : result.classes) {
    std::vector<Slot> own;
    for (const Slot& slot : ranks.slots) {
      if (slot.kind != SlotKind::master) continue;
      const UnitPlan& unit = plan.units[static_cast<std::size_t>(slot.subject.index)];
      if (unit.trained) own.push_back({SlotKind::own_weights, slot.subject, no_micro_batch, unit.master_bytes});
    }
    ranks.slots.insert(ranks.slots.end(), own.begin(), own.end());
  }
  return result;
}

}  // namespace lockstep
