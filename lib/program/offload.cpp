#include "program/offload.hpp"

#include "program/passes.hpp"
#include "program/rewriter.hpp"

#include <set>
#include <utility>

namespace lockstep {

HostPart host_part_of(const UnitPlan& unit, const OffloadOptions& options, bool in_backward) {
  HostPart part;
  part.weights = options.shards && unit.is_cut();
  part.gradient = part.weights && unit.trained && !in_backward;
  part.state = (options.optimizer || part.weights) && unit.optimizer_bytes > 0;
  return part;
}

std::int64_t offloaded_bytes(const UnitPlan& unit, const HostPart& part) {
  return (part.weights ? unit.master_bytes + unit.compute_bytes : 0) + (part.state ? unit.optimizer_bytes : 0);
}

std::int64_t fetched_bytes(const UnitPlan& unit, const HostPart& part) {
  return offloaded_bytes(unit, part) + (part.gradient ? unit.gradient_bytes : 0);
}

namespace {

/// As waits of what comes when all but so many of `positions` have ended.
Waits all_but(std::size_t under_way, const std::vector<int>& positions) {
  return positions.size() > under_way ? Waits{positions[positions.size() - 1 - under_way]} : Waits{};
}

/// Writes the list of one class with its copies.
class Copies {
 public:
  Copies(const std::vector<Action>& actions, const ModelPlan& plan, const OffloadOptions& options, bool in_backward)
      : actions_(actions), plan_(plan), options_(options), in_backward_(in_backward) {
    for (const Action& action : actions)
      if (action.op == Op::optimizer && part_of(action).in_update()) updates_.push_back(&action);
  }

  std::vector<Action> list() && {
    for (const Action& action : actions_) {
      if (action.op == Op::unshard)
        unshard(action);
      else if (action.op == Op::gradient_norm)
        norm(action);
      else if (action.op == Op::heartbeat)
        heartbeat(action);
      else if (action.op == Op::optimizer)
        optimizer(action);
      else
        keep(action);
    }
    return std::move(out_).list();
  }

 private:
  const UnitPlan& unit_of(const Action& action) const {
    return plan_.units[static_cast<std::size_t>(action.subject.index)];
  }
  HostPart part_of(const Action& action) const { return host_part_of(unit_of(action), options_, in_backward_); }

  int keep(const Action& action, const Waits& more = {}) { return out_.keep(action, more); }

  /// At most two shards are there that a gathering has not used up.
  void unshard(const Action& action) {
    if (!part_of(action).weights || action.group != unit_of(action).shard_axes) return void(keep(action));
    Waits waits = all_but(1, gathered_);
    for (const int computed : after_compute(out_.so_far())) waits.push_back(computed);  // not before memory was let go
    const int fetched = out_.add(make_copy(Op::fetch_weights, action, action.bytes, std::move(waits)));
    gathered_.push_back(keep(action, {fetched}));
  }

  void norm(const Action& action) {
    const HostPart part = part_of(action);
    const int position = keep(action, part.gradient ? all_but(0, gradients_) : Waits{});
    if (part.gradient) offload_gradient(action, {position});
  }

  void offload_gradient(const Action& of, Waits complete) {
    gradients_.push_back(
        out_.add(make_copy(Op::offload_gradient, of, unit_of(of).gradient_bytes, std::move(complete))));
    units_out_.insert(of.subject.index);
  }

  /// Of a unit on two stages one has no norm. All gradients are in host memory by then.
  void heartbeat(const Action& action) {
    for (const Action* update : updates_)
      if (part_of(*update).gradient && !units_out_.contains(update->subject.index))
        offload_gradient(*update, after_compute(out_.so_far()));
    decided_ = {keep(action, all_but(0, gradients_))};
  }

  /// What an update needs comes while the one before it runs, in the memory of the one before that.
  void fetch(std::size_t number) {
    if (number >= updates_.size() || number < fetched_.size()) return;
    const Action& of = *updates_[number];
    Waits waits = all_but(0, brought_back_);
    for (const Waits& more : {after_compute(out_.so_far()), decided_})
      waits.insert(waits.end(), more.begin(), more.end());
    fetched_.push_back(
        out_.add(make_copy(Op::fetch_state, of, fetched_bytes(unit_of(of), part_of(of)), std::move(waits))));
  }

  void optimizer(const Action& action) {
    const HostPart part = part_of(action);
    if (!part.in_update()) return void(keep(action));
    const std::size_t number = brought_back_.size();
    fetch(number);
    fetch(number + 1);
    const int position = keep(action, {fetched_[number]});
    brought_back_.push_back(
        out_.add(make_copy(Op::offload_state, action, offloaded_bytes(unit_of(action), part), {position})));
  }

  const std::vector<Action>& actions_;
  const ModelPlan& plan_;
  const OffloadOptions& options_;
  bool in_backward_;
  std::vector<const Action*> updates_;
  std::vector<int> gathered_, gradients_, fetched_, brought_back_;  // positions in the new list
  std::set<int> units_out_;                                         // whose gradient went there
  Waits decided_;                                                   // where the heartbeat is
  Rewriter out_;
};

}  // namespace

StepProgram offload_units(const StepProgram& program, const ModelPlan& plan, const OffloadOptions& options,
                          const UpdateOptions& update) {
  if (!options.optimizer && !options.shards) return program;
  return rewritten(program, [&](const std::vector<Action>& actions) {
    return Copies(actions, plan, options, update.in_backward).list();
  });
}

}  // namespace lockstep
