// The slow truth about programs: plays all ranks in a random order of events on symbolic values (which contributions a
// gradient holds, which version a weight has) and says what went wrong. It shares nothing with the verifier: no orders,
// no rules, only play.
#pragma once

#include "program/model_plan.hpp"
#include "program/program_options.hpp"
#include "program/step_program.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

namespace lockstep::brute_force {

class Play {
 public:
  Play(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase, const ProgramOptions& options,
       unsigned seed)
      : program_(program), plan_(plan), phase_(phase), options_(options), dice_(seed) {
    data_axes_ = {"dp_replicate", "dp_node", "dp_shard", "dp_shard_outer", "dp_shard_inner"};
    if (options.training_step != TrainingStep::summing)
      for (const AxisName& apart : options.local.axes) std::erase(data_axes_, apart);
    const PipelinePlan pipeline = pipeline_of(program.mesh, plan, options, phase);
    const std::vector<PipelinePart> parts = parts_of(pipeline, plan);
    for (Rank rank = 0; rank < world_size(program.mesh); ++rank) {
      Player player;
      player.ranks = &program.class_of(rank);
      player.state.assign(player.ranks->actions.size(), Progress::waiting);
      for (int i = 0; i < static_cast<int>(player.state.size()); ++i) {
        const Action& a = player.ranks->actions[static_cast<std::size_t>(i)];
        player.lanes[a.lane].push_back(i);
        if (collective(a)) player.collectives.push_back(i);
      }
      player.weights.assign(plan.units.size(), 0);
      player.copies.assign(plan.units.size(), 0);
      player.moments.assign(plan.units.size(), 0);
      player.gradients.resize(plan.units.size());
      player.finished.assign(plan.units.size(), false);
      player.part = parts[static_cast<std::size_t>(coordinate(program.mesh, rank, "pp"))];
      players_.push_back(player);
    }
  }

  /// What went wrong in this play; nothing if the step is right.
  std::optional<std::string> wrong() {
    try {
      while (const auto event = pick())
        event->begins ? begin(event->rank, event->action) : end(event->rank, event->action);
      for (const Player& player : players_) {
        for (const Progress progress : player.state)
          if (progress != Progress::ended) return "deadlock";
        judge(player);
      }
    } catch (const std::string& reason) {
      return reason;
    }
    return std::nullopt;
  }

 private:
  enum class Progress { waiting, running, ended };
  enum class Half { input, weight };  // of a backward
  using Contribution = std::tuple<Rank, int, MicroBatch, Half>;
  using Gradient = std::map<Contribution, int>;
  struct Player {
    const RankClass* ranks = nullptr;
    PipelinePart part;
    std::map<Lane, std::vector<int>> lanes;  // positions, in order
    std::map<Lane, std::size_t> next;        // how many of them have ended
    std::vector<int> collectives;            // positions, in order
    std::vector<Progress> state;
    std::set<int> live;                         // slots
    std::map<int, std::pair<int, int>> in_use;  // slot → readers and writers that run now
    std::set<std::pair<int, MicroBatch>> outputs, stashes, stashes_on_host, output_gradients, deferred;
    std::multiset<MicroBatch> losses;
    std::vector<int> weights, copies, moments;
    std::map<int, int> fetched_weights;  // by slot: how new they are
    std::set<int> gradients_on_host;     // units
    std::set<int> fetched, on_device;    // units whose state was fetched, and then updated
    std::vector<Gradient> gradients;     // by unit: what the optimizer reads
    std::vector<bool> finished;
    std::map<int, Gradient> local;           // by slot: what is not yet in what the optimizer reads
    std::map<int, Gradient> peer_gradients;  // by unit: of the other stage that it lies on
    std::set<int> local_finished;            // slots
    std::set<int> summed;                    // units whose gradient has sums of this step
    std::set<int> gathered, kept;            // slots that hold whole weights, and parts of them
    std::multiset<int> normed;
    std::multiset<int> sums, means;  // units whose weights are summed, and divided, for their average
    bool decided = false, clipped = false, reduced = false, cell_normed = false;
  };
  struct Event {
    bool begins;
    Rank rank;
    int action;
  };

  static void expect(bool right, const char* reason) {
    if (!right) throw std::string(reason);
  }
  Player& player(Rank rank) { return players_[static_cast<std::size_t>(rank)]; }
  const Action& action(Rank rank, int index) { return player(rank).ranks->actions[static_cast<std::size_t>(index)]; }
  static bool collective(const Action& a) {
    return a.op == Op::all_reduce || a.op == Op::reduce_scatter || a.op == Op::unshard || a.op == Op::heartbeat ||
           a.op == Op::reduce_loss || a.op == Op::average_weights || a.op == Op::reduce_norm;
  }

  /// The action that a lane of a rank is at: it waits or runs. Each lane does its actions one after the other.
  std::optional<int> head(Rank rank, Lane lane) {
    Player& who = player(rank);
    const std::vector<int>& line = who.lanes[lane];
    std::size_t& next = who.next[lane];
    while (next < line.size() && who.state[static_cast<std::size_t>(line[next])] == Progress::ended) ++next;
    return next < line.size() ? std::optional(line[next]) : std::nullopt;
  }
  std::optional<int> running(Rank rank, Lane lane) {
    const auto at = head(rank, lane);
    return at && player(rank).state[static_cast<std::size_t>(*at)] == Progress::running ? at : std::nullopt;
  }

  /// Of the head of a lane. Collectives begin in the order of the list, whatever their lanes.
  bool may_begin(Rank rank, int index) {
    const Player& who = player(rank);
    if (who.state[static_cast<std::size_t>(index)] != Progress::waiting) return false;
    const auto begun = [&](int i) { return who.state[static_cast<std::size_t>(i)] != Progress::waiting; };
    if (collective(action(rank, index)) &&
        !std::all_of(who.collectives.begin(), std::find(who.collectives.begin(), who.collectives.end(), index), begun))
      return false;
    for (const int wait : action(rank, index).waits)
      if (who.state[static_cast<std::size_t>(wait)] != Progress::ended) return false;
    return true;
  }

  /// The running collective of each member of the group, if all of them have begun one over the same group.
  std::optional<std::vector<std::pair<Rank, int>>> meeting(Rank rank, int index) {
    std::vector<std::pair<Rank, int>> members;
    for (const Rank member : group_along(program_.mesh, rank, action(rank, index).group)) {
      const std::optional<int> theirs = running(member, action(rank, index).lane);
      if (!theirs || !collective(action(member, *theirs)) || action(member, *theirs).group != action(rank, index).group)
        return std::nullopt;
      members.emplace_back(member, *theirs);
    }
    return members;
  }

  std::optional<Event> pick() {
    std::vector<Event> possible;
    for (Rank rank = 0; rank < static_cast<Rank>(players_.size()); ++rank) {
      for (const auto& [lane, line] : player(rank).lanes) {
        const std::optional<int> i = head(rank, lane);
        if (!i) continue;
        if (may_begin(rank, *i)) possible.push_back({true, rank, *i});
        if (player(rank).state[static_cast<std::size_t>(*i)] != Progress::running) continue;
        const Action& a = action(rank, *i);
        if (transfer(a) ? receive_of(rank, *i).has_value() : !collective(a) || meeting(rank, *i))
          possible.push_back({false, rank, *i});
      }
    }
    if (possible.empty()) return std::nullopt;
    return possible[std::uniform_int_distribution<std::size_t>(0, possible.size() - 1)(dice_)];
  }

  static bool transfer(const Action& a) {
    return a.op == Op::send_forward || a.op == Op::send_backward || a.op == Op::receive_forward ||
           a.op == Op::receive_backward || a.op == Op::send_gradient || a.op == Op::receive_gradient;
  }

  /// Of a send that runs, the receive that runs at the other end of its group.
  std::optional<std::pair<Rank, int>> receive_of(Rank rank, int index) {
    const Action& send = action(rank, index);
    if (send.op != Op::send_forward && send.op != Op::send_backward && send.op != Op::send_gradient)
      return std::nullopt;
    const std::vector<Rank> ranks = group_along(program_.mesh, rank, send.group);
    const auto peer = coordinate(program_.mesh, rank, "pp") + send.offset;
    expect(peer >= 0 && peer < static_cast<int>(ranks.size()), "nobody is there to receive");
    const Rank receiver = ranks[static_cast<std::size_t>(peer)];
    for (const auto& [lane, line] : player(receiver).lanes) {
      const std::optional<int> at = running(receiver, lane);
      if (!at) continue;
      const Action& theirs = action(receiver, *at);
      const Op wanted = send.op == Op::send_forward    ? Op::receive_forward
                        : send.op == Op::send_backward ? Op::receive_backward
                                                       : Op::receive_gradient;
      if (theirs.op == wanted && theirs.offset == -send.offset && theirs.subject == send.subject &&
          theirs.micro_batch == send.micro_batch)
        return std::pair(receiver, *at);
    }
    return std::nullopt;
  }

  void hand_over(Rank rank, int index) {
    const auto [receiver, position] = *receive_of(rank, index);
    const Action& send = action(rank, index);
    expect(send.bytes == action(receiver, position).bytes, "what is sent and what is received differ in length");
    if (send.op == Op::send_gradient) {
      const auto unit = static_cast<std::size_t>(send.subject.index);
      expect(player(rank).finished[unit], "an unfinished gradient is sent");
      player(receiver).peer_gradients[send.subject.index] = player(rank).gradients[unit];
      finish(rank, index);
      finish(receiver, position);
      return;
    }
    const std::pair<int, MicroBatch> what{send.subject.index - 1, send.micro_batch};
    const bool forward = send.op == Op::send_forward;
    expect((forward ? player(rank).outputs : player(rank).output_gradients).contains(what),
           "what is sent is not there");
    (forward ? player(receiver).outputs : player(receiver).output_gradients).insert(what);
    finish(rank, index);
    finish(receiver, position);
  }

  void begin(Rank rank, int index) {
    Player& who = player(rank);
    const Slots& slots = action(rank, index).slots;
    for (const int slot : slots.acquires) expect(who.live.insert(slot).second, "memory that is in use is acquired");
    const auto use = [&](int slot, bool writes) {
      const bool whole_run = lives_all_run(who.ranks->slots[static_cast<std::size_t>(slot)].kind);
      expect(whole_run || who.live.contains(slot), "dead memory is used");
      auto& [readers, writers] = who.in_use[slot];
      expect(writers == 0 && (!writes || readers == 0), "two actions race for memory");
      (writes ? writers : readers) += 1;
    };
    for (const int slot : slots.reads) use(slot, false);
    for (const int slot : slots.writes) use(slot, true);
    for (const int slot : slots.releases) expect(who.live.contains(slot), "dead memory is released");
    who.state[static_cast<std::size_t>(index)] = Progress::running;
  }

  void end(Rank rank, int index) {
    if (transfer(action(rank, index))) return hand_over(rank, index);
    if (!collective(action(rank, index))) {
      perform(rank, action(rank, index));
      finish(rank, index);
      return;
    }
    const auto members = *meeting(rank, index);
    const Action& mine = action(rank, index);
    Gradient sum;
    for (const auto& [member, position] : members) {
      const Action& theirs = action(member, position);
      expect(theirs.op == mine.op && theirs.subject == mine.subject && theirs.bytes == mine.bytes &&
                 theirs.micro_batch == mine.micro_batch,
             "different collectives meet");
      if (mine.op == Op::unshard && lies_on_host(mine.subject) &&
          mine.group == plan_.units[static_cast<std::size_t>(mine.subject.index)].shard_axes) {
        const int slot = slot_of(member, theirs.slots.releases, SlotKind::fetched_weights);
        expect(player(member).fetched_weights.contains(slot), "shards are gathered that are not there");
        expect(player(member).fetched_weights[slot] == 0, "new weights are gathered");
      } else if (mine.op == Op::unshard)
        expect((plan_.units[static_cast<std::size_t>(mine.subject.index)].compute_bytes > 0
                    ? player(member).copies
                    : player(member).weights)[static_cast<std::size_t>(mine.subject.index)] == 0,
               "new weights are gathered");
      if (mine.op == Op::unshard &&
          mine.group != plan_.units[static_cast<std::size_t>(mine.subject.index)].shard_axes) {
        std::vector<int> used = theirs.slots.reads;
        used.insert(used.end(), theirs.slots.releases.begin(), theirs.slots.releases.end());
        expect(player(member).kept.contains(slot_of(member, used, SlotKind::kept_weights)), "nothing was kept");
      }
      if (mine.op == Op::reduce_scatter || mine.op == Op::all_reduce)
        for (const auto& [contribution, count] : summand(member, theirs)) sum[contribution] += count;
    }
    for (const auto& [member, position] : members) {
      if (mine.op == Op::all_reduce || mine.op == Op::reduce_scatter) {
        put(member, action(member, position), sum);
      } else if (mine.op == Op::average_weights) {
        add_to_average(member, mine);
      } else if (mine.op == Op::reduce_norm) {
        reduce_norm(member);
      } else if (mine.op == Op::unshard) {
        player(member).gathered.insert(slot_of(member, action(member, position).slots.acquires, SlotKind::gathered));
      } else {
        decide(member, mine.op, members.size());
      }
      finish(member, position);
    }
  }

  void add_to_average(Rank rank, const Action& a) {
    Player& who = player(rank);
    expect(who.decided, "an average before the decision, of which a failure cannot be told");
    expect(who.weights[static_cast<std::size_t>(a.subject.index)] == 1, "old weights are averaged");
    expect(group_along(program_.mesh, rank, a.group) == group_along(program_.mesh, rank, options_.local.axes),
           "an average over other ranks than those that have weights apart");
    expect(a.bytes == plan_.units[static_cast<std::size_t>(a.subject.index)].master_bytes, "a part is averaged");
    who.sums.insert(a.subject.index);
  }

  void reduce_norm(Rank rank) {
    Player& who = player(rank);
    std::vector<AxisName> cell = data_axes_;
    cell.emplace_back("pp");
    expect(group_along(program_.mesh, rank, action(rank, *running(rank, Lane::reduction)).group) ==
               group_along(program_.mesh, rank, cell),
           "the norm of another group than the cell");
    expect(who.normed == counted_norms(who), "the norm of a cell without every norm once");
    expect(!who.cell_normed && !who.decided, "the norm of a cell twice, or too late");
    who.cell_normed = true;
  }

  /// What this rank gives to a sum: a gradient with memory of its own, or that which the optimizer reads.
  const Gradient& summand(Rank rank, const Action& a) {
    Player& who = player(rank);
    const auto unit = static_cast<std::size_t>(a.subject.index);
    if (a.op == Op::all_reduce && a.slots.releases.empty()) {
      expect(who.finished[unit], "an unfinished gradient is reduced");
      return who.gradients[unit];
    }
    const bool shard = a.op == Op::all_reduce && plan_.units[unit].is_cut();
    const SlotKind own = plan_.units[unit].casts_gradient() ? SlotKind::cast_gradient : SlotKind::local_gradient;
    const int slot = slot_of(rank, a.slots.releases, shard ? SlotKind::shard_gradient : own);
    expect(who.local_finished.contains(slot), "an unfinished gradient is scattered");
    return who.local[slot];
  }

  /// Where a sum goes: instead of what was summed, to memory of its own, or to what was there before.
  void put(Rank rank, const Action& a, const Gradient& sum) {
    Player& who = player(rank);
    const auto unit = static_cast<std::size_t>(a.subject.index);
    for (const std::vector<int>* slots : {&a.slots.acquires, &a.slots.writes})
      for (const int slot : *slots) {
        if (who.ranks->slots[static_cast<std::size_t>(slot)].kind != SlotKind::shard_gradient) continue;
        for (const auto& [contribution, count] : sum) who.local[slot][contribution] += count;
        who.local_finished.insert(slot);
        return;
      }
    if (a.slots.releases.empty() || who.summed.insert(a.subject.index).second) who.gradients[unit].clear();
    for (const auto& [contribution, count] : sum) who.gradients[unit][contribution] += count;
    who.finished[unit] = true;
  }

  void finish(Rank rank, int index) {
    Player& who = player(rank);
    const Slots& slots = action(rank, index).slots;
    for (const int slot : slots.reads) --who.in_use[slot].first;
    for (const int slot : slots.writes) --who.in_use[slot].second;
    for (const int slot : slots.releases) {
      expect(who.live.erase(slot) == 1, "dead memory is released");
      who.gathered.erase(slot);
      who.kept.erase(slot);
      who.fetched_weights.erase(slot);
      who.local.erase(slot);
      who.local_finished.erase(slot);
    }
    who.state[static_cast<std::size_t>(index)] = Progress::ended;
  }

  /// The slot of this kind among `slots`.
  int slot_of(Rank rank, const std::vector<int>& slots, SlotKind kind) {
    for (const int slot : slots)
      if (player(rank).ranks->slots[static_cast<std::size_t>(slot)].kind == kind) return slot;
    throw std::string("an action lacks its memory");
  }
  /// The gradient of this rank with memory of its own, among what an action acquires or writes.
  std::optional<int> local_gradient(Rank rank, const Action& a, int unit) {
    for (const std::vector<int>* slots : {&a.slots.acquires, &a.slots.writes, &a.slots.releases})
      for (const int index : *slots) {
        const Slot& slot = player(rank).ranks->slots[static_cast<std::size_t>(index)];
        if (slot.kind == SlotKind::local_gradient && slot.subject.index == unit) return index;
      }
    expect(!plan_.units[static_cast<std::size_t>(unit)].is_cut(), "a gradient has no memory");
    return std::nullopt;
  }

  bool lies_on_host(Subject unit) const {
    return options_.offload.shards && plan_.units[static_cast<std::size_t>(unit.index)].is_cut();
  }
  bool state_lies_on_host(Subject unit) const {
    return options_.offload.optimizer && plan_.units[static_cast<std::size_t>(unit.index)].optimizer_bytes > 0;
  }

  int blocks() const { return static_cast<int>(plan_.blocks.size()); }
  bool recomputed(int block) const {
    if (options_.recompute.every == 0 || !plan_.blocks[static_cast<std::size_t>(block)].recomputable) return false;
    int before = 0;
    for (int i = 0; i < block; ++i) before += plan_.blocks[static_cast<std::size_t>(i)].recomputable ? 1 : 0;
    return before % options_.recompute.every == 0;
  }

  template <class Use>
  void each_unit(int block, Use&& use) const {
    for (std::size_t unit = 0; unit < plan_.units.size(); ++unit)
      for (const int user : plan_.units[unit].blocks)
        if (user == block) use(unit);
  }

  void contribute(Rank rank, const Action& a, Half half) {
    Player& who = player(rank);
    const Contribution made{rank, a.subject.index, a.micro_batch, half};
    each_unit(a.subject.index, [&](std::size_t used) {
      if (!plan_.units[used].trained) return;
      if (const auto slot = local_gradient(rank, a, static_cast<int>(used))) {
        expect(!who.local_finished.contains(*slot), "a finished gradient grows");
        ++who.local[*slot][made];
        return;
      }
      expect(!who.finished[used], "a finished gradient grows");
      ++who.gradients[used][made];
    });
  }

  void perform(Rank rank, const Action& a) {
    Player& who = player(rank);
    const int block = a.subject.index;
    const auto unit = static_cast<std::size_t>(a.subject.index);
    const std::pair<int, MicroBatch> here{block, a.micro_batch};
    const auto weights_are_old = [&] {
      each_unit(block, [&](std::size_t used) {
        if (plan_.units[used].is_cut()) {
          const bool whole = std::any_of(who.gathered.begin(), who.gathered.end(), [&](int slot) {
            return who.ranks->slots[static_cast<std::size_t>(slot)].subject.index == static_cast<int>(used);
          });
          return expect(whole, "a block reads weights that are not there");
        }
        expect((plan_.units[used].compute_bytes > 0 ? who.copies : who.weights)[used] == 0,
               "a block reads new weights");
      });
    };
    switch (a.op) {
      case Op::forward:
        weights_are_old();
        expect(block == 0 || who.outputs.contains({block - 1, a.micro_batch}), "forward without input");
        who.outputs.insert(here);
        if (!recomputed(block)) who.stashes.insert(here);
        if (block + 1 == blocks()) who.losses.insert(a.micro_batch);
        return;
      case Op::recompute:
        weights_are_old();
        expect(who.outputs.contains(here), "recompute before forward");
        who.stashes.insert(here);
        return;
      case Op::backward:
      case Op::backward_input:
        weights_are_old();
        expect(who.stashes.erase(here) == 1, "backward without stash");
        expect(block + 1 == blocks() ? who.losses.contains(a.micro_batch) : who.output_gradients.contains(here),
               "backward without gradient of the output");
        if (block > 0) who.output_gradients.insert({block - 1, a.micro_batch});
        contribute(rank, a, Half::input);
        if (a.op == Op::backward || plan_.blocks[static_cast<std::size_t>(block)].deferred_bytes == 0)
          contribute(rank, a, Half::weight);
        else
          who.deferred.insert(here);
        return;
      case Op::backward_weight:
        expect(who.deferred.erase(here) == 1, "the second half of a backward without its first");
        return contribute(rank, a, Half::weight);
      case Op::finish_gradient: {
        const auto slot = local_gradient(rank, a, a.subject.index);
        if (slot)
          who.local_finished.insert(*slot);
        else
          who.finished[unit] = true;
        if (a.slots.acquires.empty()) return;
        const int cast = slot_of(rank, a.slots.acquires, SlotKind::cast_gradient);
        who.local[cast] = slot ? who.local[*slot] : who.gradients[unit];
        who.local_finished.insert(cast);
        return;
      }
      case Op::reshard:
        if (!a.group.empty()) who.kept.insert(slot_of(rank, a.slots.acquires, SlotKind::kept_weights));
        return;
      case Op::add_gradient:
        expect(who.peer_gradients.contains(a.subject.index), "a gradient is added that nobody sent");
        for (const auto& [contribution, count] : who.peer_gradients[a.subject.index])
          who.gradients[unit][contribution] += count;
        return;
      case Op::gradient_norm:
        expect(complete(rank, unit), "the norm of an incomplete gradient");
        expect(group_along(program_.mesh, rank, a.group) == group_along(program_.mesh, rank, norm_axes(unit)),
               "shares of a norm that do not add up to it");
        who.normed.insert(a.subject.index);
        return;
      case Op::clip:
        expect(who.decided, "clipped before the heartbeat");
        who.clipped = true;
        return;
      case Op::optimizer:
        if (options_.update.in_backward)
          expect(!who.decided, "an update too late to tell of its failure");
        else
          expect(who.decided && who.clipped == options_.update.clips, "an update before the decision");
        expect(complete(rank, unit), "an update from an incomplete gradient");
        if (lies_on_host(a.subject) || state_lies_on_host(a.subject)) {
          expect(who.fetched.contains(a.subject.index), "an update of what was not fetched");
          who.on_device.insert(a.subject.index);
        } else {
          ++who.moments[unit];
        }
        if (lies_on_host(a.subject)) return;
        ++who.weights[unit];
        who.copies[unit] = who.weights[unit];
        return;
      case Op::fetch_weights:
        who.fetched_weights[slot_of(rank, a.slots.acquires, SlotKind::fetched_weights)] =
            (plan_.units[unit].compute_bytes > 0 ? who.copies : who.weights)[unit];
        return;
      case Op::offload_gradient:
        expect(lies_on_host(a.subject) && complete(rank, unit), "an incomplete gradient goes to host memory");
        who.gradients_on_host.insert(a.subject.index);
        return;
      case Op::fetch_state:
        expect(
            !lies_on_host(a.subject) || options_.update.in_backward || who.gradients_on_host.contains(a.subject.index),
            "a gradient is fetched that is not there");
        who.fetched.insert(a.subject.index);
        return;
      case Op::offload_state:
        expect(who.on_device.erase(a.subject.index) == 1, "what was not updated goes to host memory");
        ++who.moments[unit];
        if (!lies_on_host(a.subject)) return;
        ++who.weights[unit];
        who.copies[unit] = who.weights[unit];
        return;
      case Op::offload_stash:
        expect(who.stashes.erase(here) == 1, "what was not kept goes to host memory");
        expect(who.stashes_on_host.insert(here).second, "it goes twice");
        return;
      case Op::fetch_stash:
        expect(who.stashes_on_host.erase(here) == 1, "what does not lie in host memory comes back");
        expect(who.stashes.insert(here).second, "it comes twice");
        return;
      case Op::finish_average:
        expect(who.sums.count(a.subject.index) == 1, "the mean of no sum");
        who.means.insert(a.subject.index);
        return;
      default: throw std::string("not of one rank");
    }
  }

  /// Along which ranks hold the same reduced gradient.
  std::vector<AxisName> norm_axes(std::size_t unit) const {
    std::vector<AxisName> axes = data_axes_;
    for (const AxisName& shard : plan_.units[unit].shard_axes) std::erase(axes, shard);
    return axes;
  }

  /// The rank of the same data as `member` on which a block lies.
  Rank holder_of(int block, Rank member) {
    for (const Rank rank : group_along(program_.mesh, member, {"pp"}))
      if (std::ranges::binary_search(player(rank).part.blocks, block)) return rank;
    throw std::string("a block lies nowhere");
  }

  /// Whether the gradient holds the contribution of every data rank, block and micro-batch once.
  bool complete(Rank rank, std::size_t unit) {
    Gradient expected;
    for (const Rank member : group_along(program_.mesh, rank, data_axes_))
      for (const int block : plan_.units[unit].blocks)
        for (MicroBatch mb = 0; mb < program_.micro_batches; ++mb)
          for (const Half half : {Half::input, Half::weight}) expected[{holder_of(block, member), block, mb, half}] = 1;
    return player(rank).finished[unit] && player(rank).gradients[unit] == expected;
  }

  void decide(Rank rank, Op op, std::size_t members) {
    Player& who = player(rank);
    std::multiset<MicroBatch> losses;
    for (MicroBatch mb = 0; mb < program_.micro_batches; ++mb)
      if (who.part.blocks.back() + 1 == blocks()) losses.insert(mb);
    expect(members == players_.size(), "a decision without all ranks");
    expect(who.losses == losses, "a decision without every loss once");
    if (op == Op::reduce_loss) {
      expect(!who.reduced, "losses are summed twice");
      who.reduced = true;
      return;
    }
    expect(who.normed == counted_norms(who), "a decision without every norm once");
    expect(who.cell_normed == cells_clip(rank), "a decision without the norm of the cell that clips by it");
    expect(!who.decided, "two decisions");
    who.decided = true;
  }

  /// Units whose norm counts here: of those on two stages on the first.
  std::multiset<int> counted_norms(const Player& who) const {
    std::multiset<int> units;
    for (const int unit : who.part.units) {
      const UnitPlan& of = plan_.units[static_cast<std::size_t>(unit)];
      if (of.trained && std::ranges::binary_search(who.part.blocks, of.blocks.front())) units.insert(unit);
    }
    return units;
  }
  bool cells_clip(Rank rank) const {
    if (options_.training_step == TrainingStep::summing || !options_.update.clips) return false;
    const std::size_t cells = group_along(program_.mesh, rank, options_.local.axes).size();
    return cells > 1 && cells < players_.size();
  }

  void judge(const Player& who) const {
    expect(who.live.empty(), "memory is left over");
    if (phase_ == ProgramPhase::evaluation) return expect(who.reduced, "losses are not summed");
    expect(who.decided, "nothing was decided");
    for (const int here : who.part.units) {
      const auto unit = static_cast<std::size_t>(here);
      const int updates = plan_.units[unit].trained ? 1 : 0;
      expect(who.weights[unit] == updates, "a unit is not updated once, or a frozen one is");
      const bool averages = options_.training_step == TrainingStep::averaging && updates == 1;
      expect(who.sums.count(here) == averages && who.means.count(here) == averages, "a unit is not averaged once");
      expect(updates == 0 || plan_.units[unit].compute_bytes == 0 || who.copies[unit] == 1, "a compute copy is old");
      expect(who.moments[unit] == updates, "the optimizer's state is not updated once");
    }
  }

  const StepProgram& program_;
  const ModelPlan& plan_;
  ProgramPhase phase_;
  const ProgramOptions& options_;
  std::mt19937 dice_;
  std::vector<AxisName> data_axes_;
  std::vector<Player> players_;
};

/// What goes wrong in any of `plays` random orders.
inline std::optional<std::string> wrong(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase,
                                        const ProgramOptions& options, unsigned plays) {
  for (unsigned seed = 0; seed < plays; ++seed)
    if (auto reason = Play(program, plan, phase, options, seed).wrong()) return reason;
  return std::nullopt;
}

}  // namespace lockstep::brute_force
