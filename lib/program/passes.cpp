#include "program/passes.hpp"

#include "program/rewriter.hpp"

#include <algorithm>

namespace lockstep {

std::vector<std::optional<KeepSet>> recomputed_blocks(const ModelPlan& plan, const RecomputePolicy& policy) {
  if (!policy.blocks.empty()) {
    invariant(policy.blocks.size() == plan.blocks.size(), "the recompute policy has an entry for each block");
    return policy.blocks;
  }
  std::vector<std::optional<KeepSet>> recomputed;
  int number = 0;  // of the next block that may be
  for (const BlockPlan& block : plan.blocks) {
    const bool is = block.recomputable && policy.every > 0 && number++ % policy.every == 0;
    recomputed.push_back(is ? std::optional(policy.keeps) : std::nullopt);
  }
  return recomputed;
}

std::vector<KeepSet> keep_sets(const ModelPlan& plan, const RecomputePolicy& policy) {
  std::vector<KeepSet> sets;
  for (const std::optional<KeepSet>& keeps : recomputed_blocks(plan, policy)) sets.push_back(keeps.value_or(KeepSet()));
  if (std::ranges::all_of(sets, &KeepSet::empty)) sets.clear();
  return sets;
}

StepProgram recompute(const StepProgram& program, const ModelPlan& plan, const RecomputePolicy& policy) {
  if (policy == RecomputePolicy::none) return program;
  const std::vector<std::optional<KeepSet>> recomputed = recomputed_blocks(plan, policy);
  StepProgram result = rewritten(program, [&](const std::vector<Action>& actions) {
    Rewriter out;
    for (const Action& action : actions) {
      const bool first = action.op == Op::backward || action.op == Op::backward_input;
      const auto block = static_cast<std::size_t>(action.subject.index);
      if (first && recomputed[block])
        out.add(speaking(make(Op::recompute, action.subject, action.micro_batch),
                         recomputation_of(plan.blocks[block], *recomputed[block]).exchanges));
      out.keep(action);
    }
    return std::move(out).list();
  });
  result.keeps = keep_sets(plan, policy);
  for (std::size_t block = 0; block < result.exchanges.size(); ++block)
    if (recomputed[block])
      result.exchanges[block].recompute = recomputation_of(plan.blocks[block], *recomputed[block]).exchanges;
  return result;
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

StepProgram draw_tokens(const StepProgram& program, std::int64_t bytes) {
  return ended_by(Op::draw_tokens, program, bytes);
}

}  // namespace lockstep
