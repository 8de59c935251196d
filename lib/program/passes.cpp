#include "program/passes.hpp"

#include "program/rewriter.hpp"

namespace lockstep {

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
        out.add(with_exchanges(make(Op::recompute, action.subject, action.micro_batch), plan));
      out.keep(action);
    }
    return std::move(out).list();
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
