#include "program/passes.hpp"
#include "program/rewriter.hpp"

#include <algorithm>

namespace lockstep {

namespace {

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

}  // namespace lockstep
