#include "program/happens_before.hpp"
#include "program/passes.hpp"
#include "program/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace lockstep::rules {

namespace {

struct SlotUse {
  int action = 0;
  bool writes = false;
};

/// What happens to one slot, in the order of the list.
struct Life {
  std::vector<int> acquired;
  std::vector<int> released;
  std::vector<SlotUse> uses;  // all four kinds
};

std::vector<Life> lives_of(const RankClass& ranks) {
  std::vector<Life> lives(ranks.slots.size());
  for (std::size_t i = 0; i < ranks.actions.size(); ++i) {
    const auto position = static_cast<int>(i);
    const Slots& slots = ranks.actions[i].slots;
    const auto use = [&](const std::vector<int>& of, bool writes) {
      for (const int slot : of) lives[static_cast<std::size_t>(slot)].uses.push_back({position, writes});
    };
    use(slots.acquires, true);
    use(slots.writes, true);
    use(slots.reads, false);
    use(slots.releases, true);  // the memory may be another's afterwards
    for (const int slot : slots.acquires) lives[static_cast<std::size_t>(slot)].acquired.push_back(position);
    for (const int slot : slots.releases) lives[static_cast<std::size_t>(slot)].released.push_back(position);
  }
  return lives;
}

class SlotCheck {
 public:
  SlotCheck(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, ProgramPhase phase,
            const ProgramOptions& options)
      : program_(program),
        ranks_(ranks),
        plan_(plan),
        phase_(phase),
        options_(options),
        recomputed_(recomputed_blocks(plan, options.recompute)),
        order_(ranks.actions),
        lives_(lives_of(ranks)) {}

  void check() {
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      lifetime(ranks_.slots[i], lives_[i]);
      races(ranks_.slots[i], lives_[i]);
      updates(ranks_.slots[i], lives_[i]);
    }
    for (std::size_t i = 0; i < ranks_.actions.size(); ++i) needs(static_cast<int>(i));
  }

 private:
  [[noreturn]] void reject(int action, const std::string& reason) const {
    throw Fault{ranks_.ranks.front(), action, reason};
  }

  std::string text_of(const Slot& slot) const {
    const std::string of = slot.micro_batch == no_micro_batch ? "" : fmt::format(" mb {}", slot.micro_batch);
    return fmt::format("{} of {}{}", name_of(slot.kind), to_text(program_, slot.subject), of);
  }

  void lifetime(const Slot& slot, const Life& life) const {
    if (slot.kind == SlotKind::shared) return;  // of all blocks: no list of actions says who uses it
    if (lives_all_run(slot.kind)) {
      const bool written =
          std::any_of(life.uses.begin(), life.uses.end(), [](const SlotUse& use) { return use.writes; });
      if (must_be_written(slot) && !written) reject(-1, fmt::format("nothing writes {}", text_of(slot)));
      if (!life.acquired.empty())
        reject(life.acquired.front(), fmt::format("acquires {}, which lives for the whole run", text_of(slot)));
      if (!life.released.empty())
        reject(life.released.front(), fmt::format("releases {}, which lives for the whole run", text_of(slot)));
      return;
    }
    if (life.acquired.empty())
      reject(life.uses.empty() ? -1 : life.uses.front().action, fmt::format("nothing acquires {}", text_of(slot)));
    if (life.acquired.size() > 1)
      reject(life.acquired[1], fmt::format("acquires {} again, after action {}", text_of(slot), life.acquired[0]));
    if (life.released.empty())
      reject(life.acquired.front(), fmt::format("acquires {}, which nothing releases", text_of(slot)));
    if (slot.kind == SlotKind::gathered && std::ranges::none_of(life.uses, [&](const SlotUse& use) {
          return use.action != life.acquired.front() && use.action != life.released.front();
        }))
      reject(life.acquired.front(), fmt::format("acquires {}, which nothing reads", text_of(slot)));
    if (life.released.size() > 1)
      reject(life.released[1], fmt::format("releases {} again, after action {}", text_of(slot), life.released[0]));
    for (const SlotUse& use : life.uses) {
      if (use.action != life.acquired.front() && !order_.before(life.acquired.front(), use.action))
        reject(use.action,
               fmt::format("may use {} before action {} acquires it", text_of(slot), life.acquired.front()));
      if (use.action != life.released.front() && !order_.before(use.action, life.released.front()))
        reject(use.action, fmt::format("may use {} after action {} releases it", text_of(slot), life.released.front()));
    }
  }

  /// Of memory that lives for the whole run: a pass over texts extends their cache, a training step updates weights.
  bool must_be_written(const Slot& slot) const {
    if (slot.kind == SlotKind::cache) return true;
    return phase_ == ProgramPhase::training && plan_.units[static_cast<std::size_t>(slot.subject.index)].trained;
  }

  /// A write is ordered with every other use. The list is one of the possible orders, so neighbours suffice.
  void races(const Slot& slot, const Life& life) const {
    std::vector<int> readers;
    int writer = -1;
    for (const SlotUse& use : life.uses) {
      const auto after = [&](int earlier) {
        if (earlier != use.action && !order_.before(earlier, use.action))
          reject(use.action,
                 fmt::format("may run at the same time as action {}, which also uses {}", earlier, text_of(slot)));
      };
      if (writer >= 0) after(writer);
      if (!use.writes) {
        readers.push_back(use.action);
        continue;
      }
      for (const int reader : readers) after(reader);
      readers.clear();
      writer = use.action;
    }
  }

  /// A step computes with the weights that it began with: nothing but their average uses them once the optimizer has
  /// written them.
  void updates(const Slot& slot, const Life& life) const {
    if (slot.kind != SlotKind::master && slot.kind != SlotKind::compute_copy) return;
    const auto written = std::ranges::find(life.uses, true, &SlotUse::writes);
    if (written == life.uses.end()) return;
    const auto later = std::ranges::find_if(std::next(written), life.uses.end(), [&](const SlotUse& use) {
      const Op op = ranks_.actions[static_cast<std::size_t>(use.action)].op;
      return use.action != written->action && op != Op::average_weights && op != Op::finish_average;
    });
    if (later != life.uses.end())
      reject(later->action, fmt::format("uses {}, which action {} has updated", text_of(slot), written->action));
  }

  bool holds(const std::vector<int>& slots, SlotKind kind, Subject subject, MicroBatch micro_batch) const {
    return std::any_of(slots.begin(), slots.end(), [&](int index) {
      const Slot& slot = ranks_.slots[static_cast<std::size_t>(index)];
      return slot.kind == kind && slot.subject == subject && slot.micro_batch == micro_batch;
    });
  }

  /// Rejects the action unless one of its `lists` holds the slot.
  void need(int position, std::initializer_list<const std::vector<int>*> lists, SlotKind kind, Subject subject,
            MicroBatch micro_batch) const {
    for (const std::vector<int>* list : lists)
      if (holds(*list, kind, subject, micro_batch)) return;
    reject(position, fmt::format("must use {}", text_of({kind, subject, micro_batch, 0})));
  }

  void needs(int position) const {
    const Action& action = ranks_.actions[static_cast<std::size_t>(position)];
    if (action.subject.kind == Subject::Kind::block) block_needs(position, action);
    if (action.subject.kind == Subject::Kind::unit) unit_needs(position, action);
    if (is_transfer(action.op) && action.subject.kind == Subject::Kind::boundary) transfer_needs(position, action);
  }

  void block_needs(int position, const Action& action) const {
    const Slots& slots = action.slots;
    const int block = action.subject.index;
    if (is_copy(action.op)) {
      const bool out = action.op == Op::offload_stash;
      need(position, {&slots.releases}, out ? SlotKind::stash : SlotKind::host_stash, action.subject,
           action.micro_batch);
      return need(position, {&slots.acquires}, out ? SlotKind::host_stash : SlotKind::fetched_stash, action.subject,
                  action.micro_batch);
    }
    const bool first = block == 0;
    const bool last = block + 1 == static_cast<int>(plan_.blocks.size());
    weights_needs(position, action);
    if (action.op == Op::backward_weight)
      return need(position, {&slots.releases}, SlotKind::deferred, action.subject, action.micro_batch);
    if (!first)
      need(position, {&slots.reads, &slots.releases}, SlotKind::boundary, boundary_subject(block), action.micro_batch);
    if (!last && action.op == Op::forward)
      need(position, {&slots.acquires}, SlotKind::boundary, boundary_subject(block + 1), action.micro_batch);
    if (plan_.blocks[static_cast<std::size_t>(block)].cache_bytes > 0)
      need(position, {&slots.writes}, SlotKind::cache, action.subject, no_micro_batch);
    if (action.op == Op::recompute && kept_bytes(block) > 0)
      need(position, {&slots.writes}, SlotKind::kept, action.subject, action.micro_batch);
    if (!adds_to_gradients(action.op)) return;
    if (recomputed_[static_cast<std::size_t>(block)] && kept_bytes(block) > 0)
      need(position, {&slots.releases}, SlotKind::kept, action.subject, action.micro_batch);
    if (action.op == Op::backward_input && plan_.blocks[static_cast<std::size_t>(block)].deferred_bytes > 0)
      need(position, {&slots.acquires}, SlotKind::deferred, action.subject, action.micro_batch);
    if (!holds(slots.releases, SlotKind::fetched_stash, action.subject, action.micro_batch))
      need(position, {&slots.releases}, SlotKind::stash, action.subject, action.micro_batch);
    if (!first)
      need(position, {&slots.acquires}, SlotKind::boundary_gradient, boundary_subject(block), action.micro_batch);
    if (!last)
      need(position, {&slots.releases}, SlotKind::boundary_gradient, boundary_subject(block + 1), action.micro_batch);
  }

  std::int64_t kept_bytes(int block) const {
    return recomputation_of(plan_.blocks[static_cast<std::size_t>(block)], keeps_of(program_, block)).kept_bytes;
  }

  static SlotKind own_weights(const UnitPlan& unit) {
    return unit.compute_bytes > 0 ? SlotKind::compute_copy : SlotKind::master;
  }

  HostPart host_part(Subject unit) const {
    return host_part_of(plan_.units[static_cast<std::size_t>(unit.index)], options_.offload,
                        options_.update.in_backward);
  }
  /// What sums over ranks end in, and the norm is of.
  SlotKind gradient_of(Subject unit) const {
    return options_.update.in_backward || host_part(unit).gradient ? SlotKind::step_gradient : SlotKind::gradient;
  }

  /// Whether the unit's gradient is reduced after each micro-batch by `op`.
  bool does_each(Op op, Subject subject) const {
    return std::ranges::any_of(ranks_.actions, [&](const Action& action) {
      return action.op == op && action.subject == subject && action.micro_batch != no_micro_batch;
    });
  }
  bool does(Op op, Subject subject) const {
    return std::ranges::any_of(ranks_.actions,
                               [&](const Action& action) { return action.op == op && action.subject == subject; });
  }
  /// Whether the unit's gradient is reduced in another type than it is kept in.
  bool is_cast(Subject subject) const {
    return plan_.units[static_cast<std::size_t>(subject.index)].casts_gradient() &&
           (does(Op::reduce_scatter, subject) || does(Op::all_reduce, subject));
  }
  /// What is reduced first: the cast gradient, or the own one.
  void need_reduced_gradient(int position, const Action& action) const {
    if (is_cast(action.subject))
      need(position, {&action.slots.releases}, SlotKind::cast_gradient, action.subject, action.micro_batch);
    else
      need_own_gradient(position, {&action.slots.releases}, action.subject, action.micro_batch);
  }
  /// What backward adds to: the gradient that the optimizer reads or, where that is reduced from other memory, the
  /// local one, of the micro-batch or of the step.
  void need_own_gradient(int position, std::initializer_list<const std::vector<int>*> lists, Subject subject,
                         MicroBatch micro_batch) const {
    const bool each = does_each(Op::finish_gradient, subject);
    if (each || plan_.units[static_cast<std::size_t>(subject.index)].is_cut())
      need(position, lists, SlotKind::local_gradient, subject, each ? micro_batch : no_micro_batch);
    else
      need(position, lists, gradient_of(subject), subject, no_micro_batch);
  }

  void weights_needs(int position, const Action& action) const {
    for (std::size_t i = 0; i < plan_.units.size(); ++i) {
      const UnitPlan& unit = plan_.units[i];
      if (std::find(unit.blocks.begin(), unit.blocks.end(), action.subject.index) == unit.blocks.end()) continue;
      const Subject subject = unit_subject(static_cast<int>(i));
      if (action.op != Op::backward_weight)
        need(position, {&action.slots.reads}, unit.is_cut() ? SlotKind::gathered : own_weights(unit), subject,
             no_micro_batch);
      if (adds_to_gradients(action.op) && unit.trained)
        need_own_gradient(position, {&action.slots.acquires, &action.slots.writes}, subject, action.micro_batch);
    }
  }

  void transfer_needs(int position, const Action& action) const {
    const Slots& slots = action.slots;
    const bool forward = action.op == Op::send_forward || action.op == Op::receive_forward;
    const SlotKind kind = forward ? SlotKind::boundary : SlotKind::boundary_gradient;
    if (action.op == Op::receive_forward || action.op == Op::receive_backward)
      need(position, {&slots.acquires}, kind, action.subject, action.micro_batch);
    else
      need(position, {&slots.reads, &slots.releases}, kind, action.subject, action.micro_batch);
  }

  /// What an update changes for good, of what lies where it `lies`.
  template <class Writes, class Lies>
  static void update_needs(const Writes& writes, const UnitPlan& unit, const Lies& lies, const HostPart& host) {
    if (lies(host.weights)) writes(SlotKind::master);
    if (lies(host.weights) && unit.compute_bytes > 0) writes(SlotKind::compute_copy);
    if (lies(host.state)) writes(SlotKind::optimizer_state);
  }

  void unit_needs(int position, const Action& action) const {
    const Slots& slots = action.slots;
    const auto reads = [&](SlotKind kind) {
      need(position, {&slots.reads, &slots.writes, &slots.releases}, kind, action.subject, no_micro_batch);
    };
    const auto writes = [&](SlotKind kind) {
      need(position, {&slots.acquires, &slots.writes}, kind, action.subject, no_micro_batch);
    };
    const UnitPlan& unit = plan_.units[static_cast<std::size_t>(action.subject.index)];
    const HostPart host = host_part(action.subject);
    const SlotKind gradient = gradient_of(action.subject);
    switch (action.op) {
      case Op::unshard:
        if (action.group == unit.shard_axes)
          reads(host.weights ? SlotKind::fetched_weights : own_weights(unit));
        else
          need(position, {&slots.reads, &slots.releases}, SlotKind::kept_weights, action.subject, no_micro_batch);
        return need(position, {&slots.acquires}, SlotKind::gathered, action.subject, no_micro_batch);
      case Op::reshard:
        if (!action.group.empty())
          need(position, {&slots.acquires}, SlotKind::kept_weights, action.subject, no_micro_batch);
        return need(position, {&slots.releases}, SlotKind::gathered, action.subject, no_micro_batch);
      case Op::finish_gradient:
        need_own_gradient(position, {&slots.writes, &slots.releases}, action.subject, action.micro_batch);
        if (is_cast(action.subject))
          need(position, {&slots.acquires}, SlotKind::cast_gradient, action.subject, action.micro_batch);
        return;
      case Op::reduce_scatter: {
        need_reduced_gradient(position, action);
        const bool each = does_each(Op::all_reduce, action.subject);
        if (!each && !(is_cast(action.subject) && does(Op::all_reduce, action.subject))) return writes(gradient);
        return need(position, {&slots.acquires, &slots.writes}, SlotKind::shard_gradient, action.subject,
                    each ? action.micro_batch : no_micro_batch);
      }
      case Op::all_reduce:
        if (action.micro_batch != no_micro_batch || is_cast(action.subject)) {
          if (unit.is_cut())
            need(position, {&slots.releases}, SlotKind::shard_gradient, action.subject, action.micro_batch);
          else
            need_reduced_gradient(position, action);
        }
        return writes(gradient);
      case Op::send_gradient:
      case Op::gradient_norm: return reads(gradient);
      case Op::receive_gradient:
        return need(position, {&slots.acquires}, SlotKind::peer_gradient, action.subject, no_micro_batch);
      case Op::add_gradient:
        need(position, {&slots.releases}, SlotKind::peer_gradient, action.subject, no_micro_batch);
        return writes(gradient);
      case Op::optimizer:
        if (!host.gradient) reads(gradient);
        if (host.in_update()) writes(SlotKind::fetched_state);
        return update_needs(writes, unit, [&](bool on_host) { return !on_host; }, host);
      case Op::fetch_weights:
        reads(own_weights(unit));
        return need(position, {&slots.acquires}, SlotKind::fetched_weights, action.subject, no_micro_batch);
      case Op::offload_gradient:
        need(position, {&slots.releases}, gradient, action.subject, no_micro_batch);
        return writes(SlotKind::gradient);
      case Op::fetch_state:
        if (host.weights) reads(SlotKind::master);
        if (host.gradient) reads(SlotKind::gradient);
        if (host.state) reads(SlotKind::optimizer_state);
        return need(position, {&slots.acquires}, SlotKind::fetched_state, action.subject, no_micro_batch);
      case Op::offload_state:
        need(position, {&slots.releases}, SlotKind::fetched_state, action.subject, no_micro_batch);
        return update_needs(writes, unit, [](bool on_host) { return on_host; }, host);
      case Op::average_weights: return writes(SlotKind::master);
      case Op::finish_average:
        writes(SlotKind::master);
        if (unit.compute_bytes > 0) writes(SlotKind::compute_copy);
        return;
      case Op::forward:
      case Op::recompute:
      case Op::backward:
      case Op::backward_input:
      case Op::backward_weight:
      case Op::receive_forward:
      case Op::send_forward:
      case Op::receive_backward:
      case Op::send_backward:
      case Op::reduce_norm:
      case Op::heartbeat:
      case Op::clip:
      case Op::reduce_loss:
      case Op::draw_tokens:
      case Op::offload_stash:
      case Op::fetch_stash: return;
    }
  }

  const StepProgram& program_;
  const RankClass& ranks_;
  const ModelPlan& plan_;
  ProgramPhase phase_;
  const ProgramOptions& options_;
  std::vector<std::optional<KeepSet>> recomputed_;  // by block
  HappensBefore order_;
  std::vector<Life> lives_;
};

}  // namespace

void check_slots(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, ProgramPhase phase,
                 const ProgramOptions& options) {
  SlotCheck(program, ranks, plan, phase, options).check();
}

}  // namespace lockstep::rules
