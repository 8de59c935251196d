// The first passes: which stages run when, and what a stage is made of. A rank posts the receive of a pass while the
// pass before it runs, and computes on while its sends are under way.
#include "base/error.hpp"
#include "program/rewriter.hpp"

#include <map>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

Op op_of(StagePass::Kind kind) {
  switch (kind) {
    case StagePass::Kind::forward: return Op::forward;
    case StagePass::Kind::backward: return Op::backward;
    case StagePass::Kind::backward_input: return Op::backward_input;
    case StagePass::Kind::backward_weight: return Op::backward_weight;
  }
  fail(ExitCode::bug, "unknown StagePass::Kind {}", static_cast<int>(kind));
}

/// A class of ranks for each coordinate of the pipeline axis, in its order.
StepProgram on_pipeline(std::string name, const Mesh& mesh, const PipelinePlan& pipeline) {
  const Axis* axis = find_axis(mesh, pipeline_axis);
  invariant((axis == nullptr ? 1 : axis->size) == pipeline.pipeline.ranks,
            "mesh and pipeline have the same number of pipeline ranks");
  StepProgram program;
  program.name = std::move(name);
  program.mesh = mesh;
  program.micro_batches = pipeline.pipeline.micro_batches * pipeline.passes;
  program.classes.resize(static_cast<std::size_t>(pipeline.pipeline.ranks));
  for (Rank rank = 0; rank < world_size(mesh); ++rank)
    program.classes[static_cast<std::size_t>(coordinate(mesh, rank, pipeline_axis))].ranks.push_back(rank);
  return program;
}

Action make_on_lane(Op op, Subject subject, MicroBatch micro_batch) {
  Action action = make(op, subject, micro_batch);
  action.lane = facts_of(op).lane;
  return action;
}

/// Makes the list of one pipeline rank out of passes of its stages.
class Expansion {
 public:
  Expansion(const PipelinePlan& pipeline, const ModelPlan& plan, int rank)
      : pipeline_(pipeline), plan_(plan), rank_(rank) {}

  std::vector<Action> list(const std::vector<Action>& passes) && {
    for (std::size_t i = 0; i < passes.size(); ++i) {
      receive(passes[i]);
      if (i + 1 < passes.size()) receive(passes[i + 1]);
      compute(passes[i]);
      send(passes[i]);
    }
    return std::move(list_);
  }

 private:
  using Visit = std::pair<int, MicroBatch>;  // of a stage or boundary

  int add(Action action) {
    list_.push_back(std::move(action));
    return static_cast<int>(list_.size()) - 1;
  }

  BlockRange blocks_of(int stage) const { return lockstep::blocks_of(pipeline_, stage, plan_); }

  Lane sending_lane(Op op, int stage) const {
    if (!climbs(pipeline_.pipeline, stage)) return facts_of(op).lane;
    return op == Op::send_forward ? Lane::send_forward_up : Lane::send_backward_up;
  }

  /// The transfer of a boundary between `stage`, which lies here, and a neighbour on another rank.
  std::optional<Action> transfer(Op op, int stage, int neighbour, MicroBatch micro_batch) const {
    const Pipeline& pipeline = pipeline_.pipeline;
    if (neighbour < 0 || neighbour >= stage_count(pipeline) || rank_of(pipeline, neighbour) == rank_) return {};
    const int boundary = blocks_of(std::max(stage, neighbour)).begin;
    Action action = make_on_lane(op, boundary_subject(boundary), micro_batch);
    action.group = {pipeline_axis};
    action.offset = rank_of(pipeline, neighbour) - rank_;
    action.bytes = plan_.blocks[static_cast<std::size_t>(boundary - 1)].output_bytes;
    if (is_send(op))
      action.lane = sending_lane(op, stage);
    else
      action.peer_lane = sending_lane(counterpart_of(op), neighbour);
    return action;
  }

  /// Posts the receive that the pass needs, if it has not been: after what has been computed by now.
  void receive(const Action& pass) {
    if (pass.op == Op::backward_weight) return;
    const bool forward = pass.op == Op::forward;
    const int stage = pass.subject.index;
    auto& posted = forward ? received_forward_ : received_backward_;
    if (posted.contains({stage, pass.micro_batch})) return;
    auto action = transfer(forward ? Op::receive_forward : Op::receive_backward, stage, forward ? stage - 1 : stage + 1,
                           pass.micro_batch);
    if (!action) return;
    if (computed_ >= 0) action->waits = {computed_};
    posted[{stage, pass.micro_batch}] = add(std::move(*action));
  }

  void compute(const Action& pass) {
    const auto [begin, end] = blocks_of(pass.subject.index);
    const Visit visit{pass.subject.index, pass.micro_batch};
    Waits waits;
    const auto wait_for = [&](const std::map<Visit, int>& transfers) {
      if (const auto found = transfers.find(visit); found != transfers.end()) waits.push_back(found->second);
    };
    if (pass.op == Op::forward) wait_for(received_forward_);
    if (pass.op == Op::backward || pass.op == Op::backward_input) {
      wait_for(sent_forward_);  // it has ended: the gradient is the answer. So what was sent can be let go
      wait_for(received_backward_);
    }
    for (int i = 0; i < end - begin; ++i) {
      const int block = pass.op == Op::forward ? begin + i : end - 1 - i;
      if (pass.op == Op::backward_weight && plan_.blocks[static_cast<std::size_t>(block)].deferred_bytes == 0) continue;
      Action action = with_exchanges(make(pass.op, block_subject(block), pass.micro_batch), plan_);
      action.waits = std::exchange(waits, {});
      computed_ = add(std::move(action));
    }
  }

  void send(const Action& pass) {
    if (pass.op == Op::backward_weight) return;
    const bool forward = pass.op == Op::forward;
    const int stage = pass.subject.index;
    auto action = transfer(forward ? Op::send_forward : Op::send_backward, stage, forward ? stage + 1 : stage - 1,
                           pass.micro_batch);
    if (!action) return;
    action->waits = {computed_};
    const int position = add(std::move(*action));
    if (forward) sent_forward_[{stage, pass.micro_batch}] = position;
  }

  const PipelinePlan& pipeline_;
  const ModelPlan& plan_;
  int rank_;
  int computed_ = -1;  // position of the latest action on the compute lane
  std::map<Visit, int> received_forward_, received_backward_, sent_forward_;  // positions, by stage and micro-batch
  std::vector<Action> list_;
};

}  // namespace

StepProgram schedule_training(const Mesh& mesh, const PipelinePlan& pipeline) {
  check(pipeline.pipeline);
  StepProgram program = on_pipeline("train", mesh, pipeline);
  for (int rank = 0; rank < pipeline.pipeline.ranks; ++rank) {
    const std::vector<StagePass> visits = passes_of(pipeline.pipeline, rank);
    std::vector<Action>& list = program.classes[static_cast<std::size_t>(rank)].actions;
    for (int pass = 0; pass < pipeline.passes; ++pass)
      for (const StagePass& visit : visits)
        list.push_back(make(op_of(visit.kind), stage_subject(visit.stage),
                            pass * pipeline.pipeline.micro_batches + visit.micro_batch));
  }
  return program;
}

StepProgram schedule_forward(std::string name, const Mesh& mesh, const PipelinePlan& pipeline) {
  StepProgram program = on_pipeline(std::move(name), mesh, pipeline);
  for (int rank = 0; rank < pipeline.pipeline.ranks; ++rank)
    for (const StagePass& visit : forward_passes_of(pipeline.pipeline, rank))
      program.classes[static_cast<std::size_t>(rank)].actions.push_back(
          make(Op::forward, stage_subject(visit.stage), visit.micro_batch));
  return program;
}

StepProgram expand(const StepProgram& program, const ModelPlan& plan, const PipelinePlan& pipeline) {
  invariant(!plan.blocks.empty(), "a model has at least one block");
  StepProgram result = program;
  for (std::size_t rank = 0; rank < result.classes.size(); ++rank)
    result.classes[rank].actions =
        Expansion(pipeline, plan, static_cast<int>(rank)).list(program.classes[rank].actions);
  for (const BlockPlan& block : plan.blocks) result.block_names.push_back(block.name);
  for (const UnitPlan& unit : plan.units) result.unit_names.push_back(unit.name);
  if (std::ranges::any_of(plan.blocks, [](const BlockPlan& block) { return block.exchanges != BlockExchanges{}; }))
    for (const BlockPlan& block : plan.blocks) result.exchanges.push_back(block.exchanges);
  result.row_shares = plan.row_shares;
  return result;
}

}  // namespace lockstep
