#include "base/error.hpp"
#include "program/passes.hpp"
#include "program/rewriter.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {

namespace {

/// Axes of the mesh among `axes` and not among `without`, if there are several ranks along them.
std::vector<AxisName> axes_of(const Mesh& mesh, const std::vector<AxisName>& axes,
                              const std::vector<AxisName>& without = {}) {
  std::vector<AxisName> group;
  int ranks = 1;
  for (const std::vector<Axis>* factors : {&mesh.axes, &mesh.expert_axes})
    for (const Axis& axis : *factors) {
      if (factors == &mesh.expert_axes && axis.size == 1) continue;
      if (std::ranges::find(group, axis.name) != group.end()) continue;  // cells are among both
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
  fail(ExitCode::bug, "unknown Accumulate {}", static_cast<int>(accumulate));
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
    const auto replicas_of = [&](const UnitPlan& unit) {
      std::vector<AxisName> summed = axes;
      if (!unit.token_axes.empty()) {
        const auto divides_experts = [&](const AxisName& name) {
          return std::ranges::find(program.mesh.expert_axes, name, &Axis::name) != program.mesh.expert_axes.end();
        };
        std::erase_if(summed, [&](const AxisName& name) { return !divides_experts(name); });
        summed.insert(summed.end(), unit.token_axes.begin(), unit.token_axes.end());
      }
      summed.insert(summed.end(), unit.summed.begin(), unit.summed.end());
      return axes_of(program.mesh, summed, unit.shard_axes);
    };
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

}  // namespace lockstep
