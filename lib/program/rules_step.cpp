#include "program/happens_before.hpp"
#include "program/passes.hpp"
#include "program/rules.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace lockstep::rules {

namespace {

using Key = std::tuple<Op, Subject, MicroBatch>;

bool is_among(const std::vector<AxisName>& axes, const AxisName& axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

class Step {
 public:
  Step(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, const ProgramOptions& options,
       const std::vector<PipelinePart>& parts, int pipeline_rank)
      : program_(program),
        ranks_(ranks),
        plan_(plan),
        options_(options),
        parts_(parts),
        part_(parts[static_cast<std::size_t>(pipeline_rank)]),
        splits_(splits_backward(options.pipeline.schedule)),
        order_(ranks.actions),
        recomputed_(recomputed_blocks(plan, options.recompute)),
        last_block_(static_cast<int>(plan.blocks.size()) - 1) {
    for (std::size_t i = 0; i < ranks.actions.size(); ++i) {
      const Action& action = ranks.actions[i];
      positions_[{action.op, action.subject, action.micro_batch}].push_back(static_cast<int>(i));
    }
    for (const Axis& axis : program.mesh.axes) {
      all_axes_.push_back(axis.name);
      if (is_among(options.axes_summed(), axis.name)) data_axes_.push_back(axis.name);
      (is_among(options.axes_apart(), axis.name) ? axes_apart_ : cell_axes_).push_back(axis.name);
    }
  }

  void check_training() {
    for (MicroBatch mb = 0; mb < program_.micro_batches; ++mb) {
      forward(mb);
      for (const int block : part_.blocks) {
        backward(block, mb);
        stash(block, mb);
      }
    }
    if (program_.apart != axes_apart_)
      throw Fault{ranks_.ranks.front(), -1,
                  fmt::format("has separate weights along {}, not along {}", join(program_.apart, "+"),
                              join(axes_apart_, "+"))};
    if (program_.keeps != keep_sets(plan_, options_.recompute))
      throw Fault{ranks_.ranks.front(), -1, "keeps other activations of recomputed blocks than the options ask for"};
    const int heartbeat = collective(Op::heartbeat, {}, all_axes_, options_.update.heartbeat_bytes);
    losses_before(heartbeat);
    if (clips_by_cells()) ordered(collective(Op::reduce_norm, {}, cell_axes_, sizeof(double)), heartbeat);
    int decision = heartbeat;
    if (options_.update.clips) ordered(heartbeat, decision = at(Op::clip, {}));
    for (const int index : part_.units) unit(index, heartbeat, decision);
    gatherings();
    nothing_else();
  }

  /// Forwards whose results meet in `end`: of an evaluation the losses, of texts the logits.
  void check_forwards(Op end, std::int64_t bytes) {
    for (MicroBatch mb = 0; mb < program_.micro_batches; ++mb) forward(mb);
    losses_before(collective(end, {}, all_axes_, bytes));
    own_weights();
    gatherings();
    nothing_else();
  }

 private:
  /// The position of the one action that does this.
  int at(Op op, Subject subject, MicroBatch micro_batch = no_micro_batch) {
    Action wanted;
    wanted.op = op;
    wanted.subject = subject;
    wanted.micro_batch = micro_batch;
    const auto found = positions_.find({op, subject, micro_batch});
    if (found == positions_.end()) throw Fault{ranks_.ranks.front(), -1, "never does " + to_text(program_, wanted)};
    if (found->second.size() > 1)
      throw Fault{ranks_.ranks.front(), found->second[1], fmt::format("repeats action {}", found->second[0])};
    expected_.insert({{op, subject, micro_batch}, found->second.front()});
    return found->second.front();
  }

  /// The position of the one pass of a block, which speaks with those that share it as the plan says.
  int pass(Op op, int block, MicroBatch micro_batch) {
    const int position = at(op, block_subject(block), micro_batch);
    const std::vector<BlockExchange> said = exchanges(op, static_cast<std::size_t>(block));
    std::int64_t bytes = 0;
    for (const BlockExchange& exchange : said) bytes += exchange.bytes();
    over(position, axes_of(said));
    carries(position, bytes);
    return position;
  }
  /// The position of the one update of a unit, likewise.
  int updated(Subject subject, const UnitPlan& unit) {
    std::int64_t bytes = 0;
    for (const BlockExchange& exchange : unit.update_exchanges) bytes += exchange.bytes();
    return collective(Op::optimizer, subject,
                      unit.update_exchanges.empty() ? std::vector<AxisName>{} : unit.update_exchanges.front().axes,
                      bytes);
  }
  std::vector<BlockExchange> exchanges(Op op, std::size_t block) const {
    const BlockPlan& of = plan_.blocks[block];
    if (op == Op::backward_weight) return {};
    if (op == Op::recompute) return recomputation_of(of, *recomputed_[block]).exchanges;
    return op == Op::forward ? of.exchanges.forward : of.exchanges.backward;
  }

  /// The position of the one action that does this, which ranks along `axes` share.
  int shared(Op op, Subject subject, const std::vector<AxisName>& axes, MicroBatch micro_batch = no_micro_batch) {
    const int position = at(op, subject, micro_batch);
    over(position, axes);
    return position;
  }

  void over(int position, const std::vector<AxisName>& axes) const {
    if (ranks_.actions[static_cast<std::size_t>(position)].group != axes)
      throw Fault{ranks_.ranks.front(), position,
                  axes.empty() ? "must not have a group" : fmt::format("must be over {}", join(axes, "+"))};
  }

  int collective(Op op, Subject subject, const std::vector<AxisName>& axes, std::int64_t bytes,
                 MicroBatch micro_batch = no_micro_batch) {
    const int position = shared(op, subject, axes, micro_batch);
    carries(position, bytes);
    return position;
  }

  void carries(int position, std::int64_t bytes) const {
    const Action& action = ranks_.actions[static_cast<std::size_t>(position)];
    if (action.bytes != bytes)
      throw Fault{ranks_.ranks.front(), position, fmt::format("carries {} bytes instead of {}", action.bytes, bytes)};
  }

  /// Axes over which the gradient of a unit is summed and held alike afterwards; none if there is one rank along them.
  std::vector<AxisName> replicated_over(const UnitPlan& unit) const {
    std::vector<AxisName> axes;
    int ranks = 1;
    const bool of_experts = !unit.token_axes.empty();
    for (const Axis& axis : of_experts ? program_.mesh.expert_axes : program_.mesh.axes) {
      if (is_among(unit.shard_axes, axis.name) || (of_experts && axis.size == 1)) continue;
      if (!is_among(data_axes_, axis.name) && !is_among(unit.token_axes, axis.name) &&
          !is_among(unit.summed, axis.name))
        continue;
      axes.push_back(axis.name);
      ranks *= axis.size;
    }
    return ranks > 1 ? axes : std::vector<AxisName>{};
  }

  /// Gatherings may be as many as the passes like: what reads the weights is a matter of slots.
  void gatherings() {
    for (const auto& [key, positions] : positions_) {
      const auto& [op, subject, micro_batch] = key;
      if (op != Op::unshard && op != Op::reshard && op != Op::fetch_weights) continue;
      const UnitPlan& unit = plan_.units[static_cast<std::size_t>(subject.index)];
      expected_.insert({key, positions.front()});
      for (const int position : positions) {
        if (op == Op::fetch_weights && !host_part(unit).weights)
          throw Fault{ranks_.ranks.front(), position, "is for a unit in device memory"};
        if (!unit.is_cut()) throw Fault{ranks_.ranks.front(), position, "is for a unit that is not sharded"};
        if (!std::ranges::binary_search(part_.units, subject.index))
          throw Fault{ranks_.ranks.front(), position, "is for a unit of other ranks"};
        const std::int64_t own_bytes = unit.compute_bytes > 0 ? unit.compute_bytes : unit.master_bytes;
        if (op == Op::fetch_weights) {
          carries(position, own_bytes);
          continue;
        }
        // Once gathered, weights that the step reads again stay cut over fewer ranks.
        const bool first = position == positions.front(), only = positions.size() == 1;
        const bool keeps = !unit.kept_axes.empty() && !only;
        if (op == Op::reshard) {
          over(position, keeps && first ? unit.kept_axes : std::vector<AxisName>{});
          continue;
        }
        over(position, keeps && !first ? unit.kept_axes : unit.shard_axes);
        carries(position, keeps && !first ? unit.kept_bytes : own_bytes);
      }
    }
  }

  void ordered(int first, int second) const {
    if (order_.before(first, second)) return;
    const auto text = to_text(program_, ranks_.actions[static_cast<std::size_t>(first)]);
    throw Fault{ranks_.ranks.front(), second, fmt::format("may start before action {} ({}) has ended", first, text)};
  }

  bool lies_here(int block) const { return std::ranges::binary_search(part_.blocks, block); }

  void losses_before(int reduction) {
    if (!lies_here(last_block_)) return;
    for (MicroBatch mb = 0; mb < program_.micro_batches; ++mb) ordered(pass(Op::forward, last_block_, mb), reduction);
  }

  /// The position of a transfer between the stages on both sides of a boundary, this one and that of `neighbour`.
  int transfer(Op op, int boundary, int neighbour, MicroBatch mb) {
    const int position = at(op, boundary_subject(boundary), mb);
    const Action& action = ranks_.actions[static_cast<std::size_t>(position)];
    carries(position, plan_.blocks[static_cast<std::size_t>(boundary - 1)].output_bytes);
    const auto peer = peer_of(program_.mesh, ranks_.ranks.front(), action);
    const auto holder = std::ranges::find_if(
        parts_, [&](const PipelinePart& part) { return std::ranges::binary_search(part.blocks, neighbour); });
    if (action.group != std::vector<AxisName>{pipeline_axis} || !peer ||
        coordinate(program_.mesh, *peer, pipeline_axis) != holder - parts_.begin())
      throw Fault{ranks_.ranks.front(), position,
                  fmt::format("must exchange with {} {}, which holds {}", pipeline_axis, holder - parts_.begin(),
                              to_text(program_, block_subject(neighbour)))};
    return position;
  }

  void forward(MicroBatch mb) {
    for (const int block : part_.blocks) {
      const int here = pass(Op::forward, block, mb);
      if (block > 0)
        ordered(lies_here(block - 1) ? pass(Op::forward, block - 1, mb)
                                     : transfer(Op::receive_forward, block, block - 1, mb),
                here);
      if (block < last_block_ && !lies_here(block + 1))
        ordered(here, transfer(Op::send_forward, block + 1, block + 1, mb));
    }
  }

  void backward(int block, MicroBatch mb) {
    const Op op = splits_ ? Op::backward_input : Op::backward;
    const int here = pass(op, block, mb);
    ordered(pass(Op::forward, block, mb), here);
    if (block < last_block_)
      ordered(lies_here(block + 1) ? pass(op, block + 1, mb) : transfer(Op::receive_backward, block + 1, block + 1, mb),
              here);
    if (block > 0 && !lies_here(block - 1)) ordered(here, transfer(Op::send_backward, block, block - 1, mb));
    if (splits_ && plan_.blocks[static_cast<std::size_t>(block)].deferred_bytes > 0)
      ordered(here, pass(Op::backward_weight, block, mb));
    if (!recomputed_[static_cast<std::size_t>(block)]) return;
    const int recompute = pass(Op::recompute, block, mb);
    ordered(pass(Op::forward, block, mb), recompute);
    ordered(recompute, here);
  }

  /// What goes to host memory is there again when backward reads it. Which stashes go is up to the pass.
  void stash(int block, MicroBatch mb) {
    const Subject subject = block_subject(block);
    if (!options_.offload.activations || !positions_.contains({Op::offload_stash, subject, mb})) return;
    const int out = at(Op::offload_stash, subject, mb), back = at(Op::fetch_stash, subject, mb);
    for (const int copy : {out, back}) carries(copy, plan_.blocks[static_cast<std::size_t>(block)].stash_bytes);
    ordered(at(Op::forward, subject, mb), out);
    ordered(out, back);
    ordered(back, at(splits_ ? Op::backward_input : Op::backward, subject, mb));
  }

  /// Where a block has added all of a micro-batch to the gradients of its units.
  int last_backward(int block, MicroBatch mb) {
    const bool deferred = splits_ && plan_.blocks[static_cast<std::size_t>(block)].deferred_bytes > 0;
    const Op op = deferred ? Op::backward_weight : splits_ ? Op::backward_input : Op::backward;
    return pass(op, block, mb);
  }

  /// The other pipeline rank that a unit lies on.
  std::optional<int> other_holder(int unit) const {
    for (std::size_t rank = 0; rank < parts_.size(); ++rank)
      if (&parts_[rank] != &part_ && std::ranges::binary_search(parts_[rank].units, unit))
        return static_cast<int>(rank);
    return std::nullopt;
  }
  /// Of a unit on two pipeline ranks the norm is counted once.
  bool counts_norm(int unit) const {
    const auto other = other_holder(unit);
    return !other || &parts_[static_cast<std::size_t>(*other)] > &part_;
  }
  int exchange(Op op, Subject subject, int other) {
    const int position = at(op, subject);
    carries(position, plan_.units[static_cast<std::size_t>(subject.index)].gradient_bytes);
    const Action& action = ranks_.actions[static_cast<std::size_t>(position)];
    const auto peer = peer_of(program_.mesh, ranks_.ranks.front(), action);
    if (action.group != std::vector<AxisName>{pipeline_axis} || !peer ||
        coordinate(program_.mesh, *peer, pipeline_axis) != other)
      throw Fault{ranks_.ranks.front(), position, fmt::format("must exchange with {} {}", pipeline_axis, other)};
    return position;
  }

  void unit(int index, int heartbeat, int decision) {
    const UnitPlan& unit = plan_.units[static_cast<std::size_t>(index)];
    if (!unit.trained) return;  // whatever is done with it then is no part of the step
    const Subject subject = unit_subject(index);
    const std::vector<AxisName> replicas = replicated_over(unit);
    const bool sums = options_.shards.accumulate == Accumulate::sums && !replicas.empty() && program_.micro_batches > 1;
    const bool each =
        sums || (unit.is_cut() && options_.shards.accumulate != Accumulate::whole && program_.micro_batches > 1);
    std::vector<int> complete;  // what the next sum, or the norm, comes after
    for (MicroBatch reduced = 0; reduced < (each ? program_.micro_batches : 1); ++reduced) {
      const MicroBatch of = each ? reduced : no_micro_batch;
      complete.push_back(at(Op::finish_gradient, subject, of));
      for (const int block : unit.blocks)
        for (MicroBatch mb = 0; mb < program_.micro_batches; ++mb)
          if (lies_here(block) && (!each || mb == reduced)) ordered(last_backward(block, mb), complete.back());
      const auto then = [&](int sum) {
        ordered(complete.back(), sum);
        complete.back() = sum;
      };
      if (unit.is_cut()) then(collective(Op::reduce_scatter, subject, unit.shard_axes, unit.reduce_bytes, of));
      if (sums) then(collective(Op::all_reduce, subject, replicas, unit.reduce_shard_bytes, of));
    }
    if (!replicas.empty() && !sums) {
      const int sum = collective(Op::all_reduce, subject, replicas, unit.reduce_shard_bytes);
      for (const int earlier : complete) ordered(earlier, sum);
      complete = {sum};
    }
    if (const auto other = other_holder(index)) {
      const int sent = exchange(Op::send_gradient, subject, *other);
      const int received = exchange(Op::receive_gradient, subject, *other);
      const int sum = at(Op::add_gradient, subject);
      for (const int earlier : complete) ordered(earlier, sent);
      ordered(sent, sum);
      ordered(received, sum);
      complete = {sum};
    }
    for (const int earlier : complete) ordered(earlier, heartbeat);
    if (counts_norm(index)) {
      std::vector<AxisName> holders = replicas;
      holders.insert(holders.end(), unit.alike.begin(), unit.alike.end());
      const int norm = shared(Op::gradient_norm, subject, holders);
      for (const int earlier : complete) ordered(earlier, norm);
      ordered(norm, heartbeat);
      if (clips_by_cells()) ordered(norm, at(Op::reduce_norm, {}));
      if (options_.update.in_backward) ordered(norm, at(Op::optimizer, subject));
    }
    const int update = updated(subject, unit);
    from_host(subject, unit, complete, update);
    if (options_.training_step == TrainingStep::averaging) average(unit, subject, heartbeat, update);
    if (!options_.update.in_backward) return ordered(decision, update);
    for (const int earlier : complete) ordered(earlier, update);
    ordered(update, heartbeat);  // whose failure it still tells
  }

  /// What one rank alone clips by is its own.
  bool clips_by_cells() const {
    const auto ranks = [&](const std::vector<AxisName>& axes) {
      return group_along(program_.mesh, ranks_.ranks.front(), axes).size();
    };
    return options_.update.clips && ranks(axes_apart_) > 1 && ranks(cell_axes_) > 1;
  }

  /// Each updated weight is averaged once over all that have it apart, when a failure cannot be told any more.
  void average(const UnitPlan& unit, Subject subject, int heartbeat, int update) {
    const int sum = collective(Op::average_weights, subject, axes_apart_, unit.master_bytes);
    ordered(update, sum);
    ordered(heartbeat, sum);
    ordered(sum, at(Op::finish_average, subject));
  }

  HostPart host_part(const UnitPlan& unit) const {
    return host_part_of(unit, options_.offload, options_.update.in_backward);
  }

  /// What lies in host memory is brought for the update, and back.
  void from_host(Subject subject, const UnitPlan& unit, const std::vector<int>& complete, int update) {
    const HostPart part = host_part(unit);
    if (!part.in_update()) return;
    const int fetched = at(Op::fetch_state, subject), brought_back = at(Op::offload_state, subject);
    carries(fetched, fetched_bytes(unit, part));
    carries(brought_back, offloaded_bytes(unit, part));
    ordered(fetched, update);
    ordered(update, brought_back);
    if (!part.gradient) return;
    const int gradient = at(Op::offload_gradient, subject);
    carries(gradient, unit.gradient_bytes);
    for (const int earlier : complete) ordered(earlier, gradient);
    ordered(gradient, fetched);
  }

  /// What reads the average over cells leaves room for what this rank has of its own.
  void own_weights() const {
    for (const int index : part_.units) {
      const UnitPlan& unit = plan_.units[static_cast<std::size_t>(index)];
      const auto has = std::ranges::count(
          ranks_.slots, Slot{SlotKind::own_weights, unit_subject(index), no_micro_batch, unit.master_bytes});
      if (has != (unit.trained && !options_.local.axes.empty() ? 1 : 0))
        throw Fault{ranks_.ranks.front(), -1,
                    fmt::format("has memory for own weights of unit {} {} times", unit.name, has)};
    }
  }

  void nothing_else() const {
    for (const auto& [key, positions] : positions_)
      if (!expected_.contains(key))
        throw Fault{ranks_.ranks.front(), positions.front(), "does not belong to this step"};
  }

  const StepProgram& program_;
  const RankClass& ranks_;
  const ModelPlan& plan_;
  const ProgramOptions& options_;
  const std::vector<PipelinePart>& parts_;  // of the pipeline ranks
  const PipelinePart& part_;                // of these ranks
  bool splits_;
  HappensBefore order_;
  std::vector<std::optional<KeepSet>> recomputed_;  // by block
  int last_block_;
  std::vector<AxisName> all_axes_;
  std::vector<AxisName> data_axes_;  // along which gradients are summed
  std::vector<AxisName> axes_apart_, cell_axes_;
  std::map<Key, std::vector<int>> positions_;
  std::map<Key, int> expected_;
};

}  // namespace

void check_step(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, ProgramPhase phase,
                const ProgramOptions& options) {
  const PipelinePlan pipeline = pipeline_of(program.mesh, plan, options, phase);
  const std::vector<PipelinePart> parts = parts_of(pipeline, plan);
  const int pipeline_rank = coordinate(program.mesh, ranks.ranks.front(), pipeline_axis);
  for (const Rank rank : ranks.ranks)
    if (coordinate(program.mesh, rank, pipeline_axis) != pipeline_rank)
      throw Fault{rank, -1,
                  fmt::format("is in the same class as rank {}, which has other stages", ranks.ranks.front())};
  Step step(program, ranks, plan, options, parts, pipeline_rank);
  switch (phase) {
    case ProgramPhase::training: return step.check_training();
    case ProgramPhase::evaluation: return step.check_forwards(Op::reduce_loss, options.eval_reduction_bytes);
    case ProgramPhase::prompt:
    case ProgramPhase::token: return step.check_forwards(Op::draw_tokens, options.draw_bytes);
  }
}

}  // namespace lockstep::rules
