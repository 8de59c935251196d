// The last pass: which memory each action begins, reads, writes and ends.
//
// The output of block i - 1 is boundary i. Autograd keeps it until the backward of block i - 1 has run; if that block
// is computed again, only the input of block i is needed, until the backward of block i.
#include "base/error.hpp"
#include "program/passes.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace lockstep {

namespace {

class Allocation {
 public:
  Allocation(RankClass& ranks, const StepProgram& program, const ModelPlan& plan, bool in_backward,
             const OffloadOptions& offload)
      : ranks_(ranks),
        program_(program),
        plan_(plan),
        in_backward_(in_backward),
        offload_(offload),
        blocks_(static_cast<int>(plan.blocks.size())) {
    for (const Action& action : ranks.actions) {
      if (action.op == Op::recompute) recomputed_.insert({action.subject.index, action.micro_batch});
      if (adds_to_gradients(action.op)) trains_ = true;
      if (action.op == Op::unshard && action.group != plan_of(action).shard_axes)
        last_kept_[action.subject.index] = &action;
      if (action.op == Op::receive_forward) received_.insert({action.subject.index, action.micro_batch});
      const bool sums = action.op == Op::all_reduce;
      if ((sums || action.op == Op::reduce_scatter) && plan_of(action).casts_gradient())
        casts_.insert(action.subject.index);
      if (sums) replicated_.insert(action.subject.index);
      if (action.micro_batch == no_micro_batch) continue;
      if (action.op == Op::finish_gradient) reduces_each_.insert(action.subject.index);
      if (action.op == Op::all_reduce) sums_each_.insert(action.subject.index);
    }
    for (std::size_t i = 0; i < plan.units.size(); ++i)
      if (lies_here(plan.units[i])) hold_unit(static_cast<int>(i), plan.units[i]);
    if (plan.shared_bytes > 0) add({SlotKind::shared, {}, no_micro_batch, plan.shared_bytes});
    for (int block = 0; block < blocks_; ++block)
      if (const std::int64_t bytes = plan.blocks[static_cast<std::size_t>(block)].cache_bytes; bytes > 0 && runs(block))
        add({SlotKind::cache, block_subject(block), no_micro_batch, bytes});
  }

  void give(Action& action) {
    switch (action.op) {
      case Op::forward: forward(action); return;
      case Op::recompute: recompute(action); return;
      case Op::backward:
      case Op::backward_input: backward(action); return;
      case Op::backward_weight: backward_weight(action); return;
      case Op::receive_forward: return acquire(action, SlotKind::boundary, action.subject, action.bytes);
      case Op::receive_backward: return acquire(action, SlotKind::boundary_gradient, action.subject, action.bytes);
      case Op::send_forward: send_forward(action); return;
      case Op::send_backward:
        action.slots.releases = {find(SlotKind::boundary_gradient, action.subject, action.micro_batch)};
        return;
      case Op::unshard: unshard(action); return;
      case Op::reshard:
        action.slots.releases = {find(SlotKind::gathered, action.subject, no_micro_batch)};
        if (!action.group.empty()) acquire(action, SlotKind::kept_weights, action.subject, plan_of(action).kept_bytes);
        return;
      case Op::finish_gradient: finish_gradient(action); return;
      case Op::reduce_scatter: reduce_scatter(action); return;
      case Op::all_reduce: all_reduce(action); return;
      case Op::send_gradient: action.slots.reads = {gradient(action)}; return;
      case Op::receive_gradient: return acquire(action, SlotKind::peer_gradient, action.subject, action.bytes);
      case Op::add_gradient:
        action.slots.writes = {gradient(action)};
        action.slots.releases = {held(SlotKind::peer_gradient, action)};
        return;
      case Op::gradient_norm: action.slots.reads = {gradient(action)}; return;
      case Op::optimizer: optimizer(action); return;
      case Op::fetch_weights:
        action.slots.reads = {own_weights(action)};
        return acquire(action, SlotKind::fetched_weights, action.subject, action.bytes);
      case Op::offload_gradient:
        action.slots.writes = {held(SlotKind::gradient, action)};
        action.slots.releases = {gradient(action)};
        return;
      case Op::fetch_state: fetch_state(action); return;
      case Op::offload_state: offload_state(action); return;
      case Op::offload_stash:
        action.slots.releases = {find(SlotKind::stash, action.subject, action.micro_batch)};
        action.slots.acquires = {
            add({SlotKind::host_stash, action.subject, action.micro_batch, action.bytes, 0, Arena::host})};
        return;
      case Op::fetch_stash:
        action.slots.releases = {find(SlotKind::host_stash, action.subject, action.micro_batch)};
        return acquire(action, SlotKind::fetched_stash, action.subject, action.bytes);
      case Op::average_weights: action.slots.writes = {held(SlotKind::master, action)}; return;
      case Op::finish_average:
        action.slots.writes = {held(SlotKind::master, action)};
        if (plan_of(action).compute_bytes > 0) action.slots.writes.push_back(held(SlotKind::compute_copy, action));
        return;
      case Op::reduce_norm:
      case Op::heartbeat:
      case Op::clip:
      case Op::reduce_loss:
      case Op::draw_tokens: return;
    }
  }

 private:
  using Key = std::tuple<SlotKind, Subject, MicroBatch>;

  int add(const Slot& slot) {
    ranks_.slots.push_back(slot);
    const int index = static_cast<int>(ranks_.slots.size()) - 1;
    index_[{slot.kind, slot.subject, slot.micro_batch}] = index;
    return index;
  }

  void hold_unit(int index, const UnitPlan& unit) {
    const HostPart part = host_part_of(unit, offload_, in_backward_);
    const auto hold = [&](SlotKind kind, std::int64_t bytes, bool on_host) {
      const Arena arena = on_host ? Arena::host : Arena::device;
      add({.kind = kind, .subject = unit_subject(index), .bytes = bytes, .arena = arena});
    };
    hold(SlotKind::master, unit.master_memory(), part.weights);
    if (unit.compute_bytes > 0) hold(SlotKind::compute_copy, unit.compute_memory(), part.weights);
    if (!unit.trained) return;
    if (!in_backward_) hold(SlotKind::gradient, unit.gradient_memory(), part.gradient);
    hold(SlotKind::optimizer_state, unit.optimizer_bytes, part.state);
  }

  int find(SlotKind kind, Subject subject, MicroBatch micro_batch) const {
    const auto found = index_.find({kind, subject, micro_batch});
    invariant(found != index_.end(), "memory that an action uses was given to an earlier one");
    return found->second;
  }
  int held(SlotKind kind, const Action& action) const { return find(kind, action.subject, no_micro_batch); }
  int boundary(SlotKind kind, int index, const Action& action) const {
    return find(kind, boundary_subject(index), action.micro_batch);
  }

  const UnitPlan& plan_of(const Action& action) const {
    return plan_.units[static_cast<std::size_t>(action.subject.index)];
  }
  HostPart host_part(int unit) const {
    return host_part_of(plan_.units[static_cast<std::size_t>(unit)], offload_, in_backward_);
  }
  /// What gatherings read.
  int own_weights(const Action& action) const {
    return held(plan_of(action).compute_bytes > 0 ? SlotKind::compute_copy : SlotKind::master, action);
  }
  /// Whole weights: those of the latest gathering of a unit are found by its name.
  void unshard(Action& action) {
    if (action.group == plan_of(action).shard_axes) {
      if (host_part(action.subject.index).weights)
        action.slots.releases = {held(SlotKind::fetched_weights, action)};
      else
        action.slots.reads = {own_weights(action)};
    } else {
      auto& uses = last_kept_.at(action.subject.index) == &action ? action.slots.releases : action.slots.reads;
      uses = {held(SlotKind::kept_weights, action)};
    }
    acquire(action, SlotKind::gathered, action.subject, plan_of(action).gathered_memory());
    ranks_.slots.back().turn = turns_[action.subject.index]++;
  }
  MicroBatch gradient_of(int unit, MicroBatch micro_batch) const {
    return reduces_each_.contains(unit) ? micro_batch : no_micro_batch;
  }
  /// Whether backward adds to memory of its own, which is reduced into the gradient.
  bool has_local_gradient(int unit) const {
    return plan_.units[static_cast<std::size_t>(unit)].is_cut() || reduces_each_.contains(unit);
  }
  /// What the optimizer reads lives all run unless it is used up in backward or goes to host memory.
  SlotKind gradient_kind(int unit) const {
    return in_backward_ || host_part(unit).gradient ? SlotKind::step_gradient : SlotKind::gradient;
  }
  int gradient(const Action& action) const { return held(gradient_kind(action.subject.index), action); }
  /// What backward adds to.
  int own_gradient(int unit, MicroBatch micro_batch) const {
    return has_local_gradient(unit) ? find(SlotKind::local_gradient, unit_subject(unit), gradient_of(unit, micro_batch))
                                    : find(gradient_kind(unit), unit_subject(unit), no_micro_batch);
  }
  void finish_gradient(Action& action) {
    const int own = own_gradient(action.subject.index, action.micro_batch);
    const bool casts = casts_.contains(action.subject.index);
    (casts && has_local_gradient(action.subject.index) ? action.slots.releases : action.slots.writes) = {own};
    if (casts) acquire(action, SlotKind::cast_gradient, action.subject, plan_of(action).reduce_bytes);
  }
  /// What is reduced first.
  int reduced_gradient(const Action& action) const {
    return casts_.contains(action.subject.index) ? find(SlotKind::cast_gradient, action.subject, action.micro_batch)
                                                 : own_gradient(action.subject.index, action.micro_batch);
  }
  void reduce_scatter(Action& action) {
    const int unit = action.subject.index;
    action.slots.releases = {reduced_gradient(action)};
    const bool each = sums_each_.contains(unit);
    if (!each && !(casts_.contains(unit) && replicated_.contains(unit))) return add_to_gradient(action, unit);
    const Key key{SlotKind::shard_gradient, action.subject, each ? action.micro_batch : no_micro_batch};
    if (const auto found = index_.find(key); found != index_.end())
      action.slots.writes.push_back(found->second);
    else
      action.slots.acquires.push_back(add(
          {SlotKind::shard_gradient, action.subject, std::get<MicroBatch>(key), plan_of(action).reduce_shard_bytes}));
  }
  void all_reduce(Action& action) {
    const int unit = action.subject.index;
    const bool each = action.micro_batch != no_micro_batch;
    if (each || casts_.contains(unit))
      action.slots.releases = {plan_of(action).is_cut()
                                   ? find(SlotKind::shard_gradient, action.subject, action.micro_batch)
                                   : reduced_gradient(action)};
    add_to_gradient(action, unit);
  }
  const BlockPlan& block_of(const Action& action) const {
    return plan_.blocks[static_cast<std::size_t>(action.subject.index)];
  }
  bool recomputes(int block, MicroBatch micro_batch) const { return recomputed_.contains({block, micro_batch}); }
  bool receives(int boundary, MicroBatch micro_batch) const { return received_.contains({boundary, micro_batch}); }

  bool lies_here(const UnitPlan& unit) const {
    return std::ranges::any_of(ranks_.actions, [&](const Action& action) {
      return action.subject.kind == Subject::Kind::block &&
             std::ranges::find(unit.blocks, action.subject.index) != unit.blocks.end();
    });
  }
  bool runs(int block) const {
    return std::ranges::find(ranks_.actions, block_subject(block), &Action::subject) != ranks_.actions.end();
  }
  bool has_boundary(int index) const { return index > 0 && index < blocks_; }

  void acquire(Action& action, SlotKind kind, Subject subject, std::int64_t bytes) {
    action.slots.acquires.push_back(add({kind, subject, action.micro_batch, bytes}));
  }

  void work(Action& action, std::int64_t bytes) {
    if (bytes == 0) return;
    acquire(action, SlotKind::workspace, action.subject, bytes);
    action.slots.releases.push_back(action.slots.acquires.back());
  }

  template <class Use>
  void each_unit(const Action& action, Use&& use) const {
    for (std::size_t i = 0; i < plan_.units.size(); ++i) {
      const std::vector<int>& blocks = plan_.units[i].blocks;
      if (std::find(blocks.begin(), blocks.end(), action.subject.index) != blocks.end())
        use(static_cast<int>(i), plan_.units[i]);
    }
  }

  void read_weights(Action& action) const {
    each_unit(action, [&](int index, const UnitPlan& unit) {
      const SlotKind kind = unit.is_cut()            ? SlotKind::gathered
                            : unit.compute_bytes > 0 ? SlotKind::compute_copy
                                                     : SlotKind::master;
      action.slots.reads.push_back(find(kind, unit_subject(index), no_micro_batch));
    });
  }

  void forward(Action& action) {
    const int block = action.subject.index;
    read_weights(action);
    if (block_of(action).cache_bytes > 0)
      action.slots.writes.push_back(find(SlotKind::cache, action.subject, no_micro_batch));
    if (has_boundary(block)) {
      auto& uses = trains_ ? action.slots.reads : action.slots.releases;
      uses.push_back(boundary(SlotKind::boundary, block, action));
    }
    if (has_boundary(block + 1))
      acquire(action, SlotKind::boundary, boundary_subject(block + 1), block_of(action).output_bytes);
    const bool keeps = trains_ && !recomputes(block, action.micro_batch);
    if (keeps) acquire(action, SlotKind::stash, action.subject, block_of(action).stash_bytes);
    if (keeps || !trains_)
      return work(action,
                  keeps ? block_of(action).forward_workspace_bytes : block_of(action).inference_workspace_bytes);
    const Recomputation again = recomputation(action);
    if (again.kept_bytes > 0) acquire(action, SlotKind::kept, action.subject, again.kept_bytes);
    work(action, again.workspace_bytes);
  }

  Recomputation recomputation(const Action& action) const {
    return recomputation_of(block_of(action), keeps_of(program_, action.subject.index));
  }

  void recompute(Action& action) {
    const int block = action.subject.index;
    read_weights(action);
    if (has_boundary(block)) action.slots.reads.push_back(boundary(SlotKind::boundary, block, action));
    const std::int64_t kept = recomputation(action).kept_bytes;
    // Its output is new. What was kept is in the stash now, in its own memory.
    acquire(action, SlotKind::stash, action.subject,
            block_of(action).stash_bytes + block_of(action).output_bytes - kept);
    if (kept > 0) action.slots.writes.push_back(find(SlotKind::kept, action.subject, action.micro_batch));
    work(action, block_of(action).forward_workspace_bytes);
  }

  void backward(Action& action) {
    const int block = action.subject.index;
    const MicroBatch mb = action.micro_batch;
    read_weights(action);
    if (has_boundary(block)) {
      const bool alone = recomputes(block - 1, mb) || receives(block, mb);  // autograd of block - 1 does not keep it
      auto& uses = alone ? action.slots.releases : action.slots.reads;
      uses.push_back(boundary(SlotKind::boundary, block, action));
      acquire(action, SlotKind::boundary_gradient, boundary_subject(block),
              plan_.blocks[static_cast<std::size_t>(block - 1)].output_bytes);
    }
    if (has_boundary(block + 1)) {
      if (!recomputes(block, mb)) action.slots.releases.push_back(boundary(SlotKind::boundary, block + 1, action));
      action.slots.releases.push_back(boundary(SlotKind::boundary_gradient, block + 1, action));
    }
    const bool fetched = index_.contains({SlotKind::fetched_stash, action.subject, mb});
    action.slots.releases.push_back(find(fetched ? SlotKind::fetched_stash : SlotKind::stash, action.subject, mb));
    if (recomputes(block, mb) && recomputation(action).kept_bytes > 0)
      action.slots.releases.push_back(find(SlotKind::kept, action.subject, mb));
    if (action.op == Op::backward_input && block_of(action).deferred_bytes > 0)
      acquire(action, SlotKind::deferred, action.subject, block_of(action).deferred_bytes);
    add_gradients(action);
    work(action, block_of(action).workspace_bytes);
  }

  void backward_weight(Action& action) {
    action.slots.releases.push_back(find(SlotKind::deferred, action.subject, action.micro_batch));
    add_gradients(action);
  }

  /// Autograd keeps what was sent until the backward of the block that made it, which lets go of it.
  void send_forward(Action& action) {
    const int boundary_index = action.subject.index;
    const bool kept = trains_ && !recomputes(boundary_index - 1, action.micro_batch);
    auto& uses = kept ? action.slots.reads : action.slots.releases;
    uses.push_back(boundary(SlotKind::boundary, boundary_index, action));
  }

  /// The gradient that the optimizer reads; where it lives within the step it begins with the first contribution.
  void add_to_gradient(Action& action, int unit) {
    const Slot slot{gradient_kind(unit), unit_subject(unit), no_micro_batch,
                    plan_.units[static_cast<std::size_t>(unit)].gradient_memory()};
    if (const auto known = index_.find({slot.kind, slot.subject, slot.micro_batch}); known != index_.end())
      action.slots.writes.push_back(known->second);
    else
      action.slots.acquires.push_back(add(slot));
  }

  void add_gradients(Action& action) {
    const MicroBatch mb = action.micro_batch;
    each_unit(action, [&](int index, const UnitPlan& unit) {
      if (!unit.trained) return;
      if (!has_local_gradient(index)) {
        add_to_gradient(action, index);
      } else if (const Key key{SlotKind::local_gradient, unit_subject(index), gradient_of(index, mb)};
                 index_.contains(key)) {
        action.slots.writes.push_back(index_.at(key));
      } else {
        action.slots.acquires.push_back(
            add({SlotKind::local_gradient, unit_subject(index), gradient_of(index, mb), unit.local_gradient_memory()}));
      }
    });
  }

  void optimizer(Action& action) const {
    const HostPart part = host_part(action.subject.index);
    if (!part.gradient) (in_backward_ ? action.slots.releases : action.slots.reads) = {gradient(action)};
    if (part.in_update()) action.slots.writes.push_back(held(SlotKind::fetched_state, action));
    for (const auto& [slot, on_host] : updated(action))
      if (!on_host) action.slots.writes.push_back(slot);
  }

  /// What an update writes, and whether it lies in host memory.
  std::vector<std::pair<int, bool>> updated(const Action& action) const {
    const HostPart part = host_part(action.subject.index);
    std::vector<std::pair<int, bool>> slots{{held(SlotKind::master, action), part.weights},
                                            {held(SlotKind::optimizer_state, action), part.state}};
    if (plan_of(action).compute_bytes > 0) slots.emplace_back(held(SlotKind::compute_copy, action), part.weights);
    return slots;
  }

  void fetch_state(Action& action) {
    const HostPart part = host_part(action.subject.index);
    if (part.weights) action.slots.reads.push_back(held(SlotKind::master, action));
    if (part.gradient) action.slots.reads.push_back(held(SlotKind::gradient, action));
    if (part.state) action.slots.reads.push_back(held(SlotKind::optimizer_state, action));
    acquire(action, SlotKind::fetched_state, action.subject, action.bytes);
  }

  void offload_state(Action& action) const {
    for (const auto& [slot, on_host] : updated(action))
      if (on_host) action.slots.writes.push_back(slot);
    action.slots.releases = {held(SlotKind::fetched_state, action)};
  }

  RankClass& ranks_;
  const StepProgram& program_;
  const ModelPlan& plan_;
  bool in_backward_;
  const OffloadOptions& offload_;
  int blocks_;
  bool trains_ = false;
  std::set<std::pair<int, MicroBatch>> recomputed_;
  std::set<std::pair<int, MicroBatch>> received_;  // boundaries
  std::set<int> reduces_each_;                     // units whose gradient is reduced after each micro-batch
  std::set<int> casts_;                            // units whose gradient is reduced in another type
  std::set<int> replicated_;                       // units whose gradient is summed by an all-reduce
  std::set<int> sums_each_;                        // of these, those that are then complete
  std::map<int, const Action*> last_kept_;         // by unit: the last that gathers it from kept weights
  std::map<int, int> turns_;                       // by unit: how often it was gathered
  std::map<Key, int> index_;                       // the latest slot of each key
};

}  // namespace

StepProgram allocate(const StepProgram& program, const ModelPlan& plan, const UpdateOptions& options,
                     const OffloadOptions& offload) {
  StepProgram result = program;
  for (RankClass& ranks : result.classes) {
    invariant(ranks.slots.empty(), "memory is given once");
    Allocation allocation(ranks, program, plan, options.in_backward, offload);
    for (Action& action : ranks.actions) allocation.give(action);
  }
  return result;
}

}  // namespace lockstep
