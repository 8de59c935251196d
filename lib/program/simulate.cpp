#include "program/simulate.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "program/rank_walk.hpp"

#include <algorithm>

namespace lockstep {

namespace {

double bytes_moved(const UnitPlan& unit, Op op) {
  const double gradient = static_cast<double>(unit.gradient_bytes);
  const double master = static_cast<double>(unit.master_bytes);
  switch (op) {
    case Op::gradient_norm: return gradient;
    case Op::optimizer: return gradient + 2 * master + 2 * static_cast<double>(unit.optimizer_bytes);
    default: return 0;
  }
}

int ranks_along(const Mesh& mesh, const std::vector<AxisName>& axes) {
  int ranks = 1;
  for (const AxisName& name : axes)
    if (const Axis* axis = find_axis(mesh, name)) ranks *= axis->size;
  return ranks;
}

/// Walks all ranks together; each visit moves a rank's lanes as far as what is known allows.
class Simulation {
 public:
  Simulation(const StepProgram& program, const CostOf& cost_of) : program_(program), cost_of_(cost_of) {
    for (Rank rank = 0; rank < world_size(program.mesh); ++rank) players_.emplace_back(program.class_of(rank));
  }

  Timeline run() {
    walk_ranks(static_cast<Rank>(players_.size()), [this](Rank rank, std::size_t lane) { return advance(rank, lane); });
    Timeline timeline;
    for (Player& player : players_) {
      timeline.ranks.push_back(summary_of(player));
      for (const Interval& interval : timeline.ranks.back().intervals)
        timeline.end_s = std::max(timeline.end_s, interval.end_s);
    }
    return timeline;
  }

 private:
  struct Player {
    const RankClass* ranks;
    RankProgress progress;
    std::array<double, lane_count> free_s{};  // when the lane's latest action ends
    std::vector<Interval> times;

    explicit Player(const RankClass& of) : ranks(&of), progress(of.actions), times(of.actions.size()) {}
  };

  Player& player(Rank rank) { return players_[static_cast<std::size_t>(rank)]; }
  static const Action& action(const Player& player, int position) { return player.progress.action(position); }

  /// The lane's next action if everything it waits for has a known end; −1 otherwise.
  static int startable(const Player& player, std::size_t lane) {
    const int position = player.progress.head(lane);
    return position >= 0 && player.progress.waits_have_ended(position) ? position : -1;
  }

  static double earliest(const Player& player, std::size_t lane, int position) {
    double time = player.free_s[lane];
    for (const int wait : action(player, position).waits)
      time = std::max(time, player.times[static_cast<std::size_t>(wait)].end_s);
    return time;
  }

  bool advance(Rank rank, std::size_t lane) {
    const int position = startable(player(rank), lane);
    if (position < 0) return false;
    const Action& mine = action(player(rank), position);
    const std::vector<Rank> members =
        is_collective(mine.op) ? group_along(program_.mesh, rank, mine.group) : std::vector<Rank>{rank};
    double together = 0;
    for (const Rank member : members) {
      const int theirs = startable(player(member), lane);
      if (theirs < 0 || action(player(member), theirs).group != mine.group) return false;
      together = std::max(together, earliest(player(member), lane, theirs));
    }
    const double end = together + cost_of_(program_, mine);
    for (const Rank member : members) {
      Player& other = player(member);
      const int theirs = startable(other, lane);
      other.times[static_cast<std::size_t>(theirs)] = {theirs, earliest(other, lane, theirs), end};
      other.progress.end(theirs);
      other.free_s[lane] = end;
    }
    return true;
  }

  /// Seconds in which the compute lane and another one are busy.
  static double overlap_of(const Player& player) {
    std::vector<Interval> others;
    for (std::size_t lane = 1; lane < lane_count; ++lane)
      for (const int position : player.progress.lane(lane))
        others.push_back(player.times[static_cast<std::size_t>(position)]);
    std::ranges::sort(others, {}, &Interval::begin_s);
    double covered_s = 0;  // up to where others were counted
    double overlap = 0;
    const auto& compute = player.progress.lane(0);
    for (const Interval& other : others) {
      const double begin = std::max(other.begin_s, covered_s);
      for (const int position : compute) {
        const Interval& own = player.times[static_cast<std::size_t>(position)];
        overlap += std::max(0.0, std::min(own.end_s, other.end_s) - std::max(own.begin_s, begin));
      }
      covered_s = std::max(covered_s, other.end_s);
    }
    return overlap;
  }

  static std::int64_t peak_of(const Player& player) {
    struct Change {
      double time_s;
      std::int64_t bytes;
    };
    std::int64_t live = 0;
    for (const Slot& slot : player.ranks->slots)
      if (lives_all_run(slot.kind)) live += slot.bytes;
    std::vector<Change> changes;
    for (const Interval& interval : player.times) {
      const Slots& slots = action(player, interval.action).slots;
      for (const int slot : slots.acquires)
        changes.push_back({interval.begin_s, player.ranks->slots[static_cast<std::size_t>(slot)].bytes});
      for (const int slot : slots.releases)
        changes.push_back({interval.end_s, -player.ranks->slots[static_cast<std::size_t>(slot)].bytes});
    }
    // At one moment memory ends before other memory begins, but an action that takes no time still begins before it
    // ends.
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Change& a, const Change& b) { return a.time_s < b.time_s; });
    std::int64_t peak = live;
    for (const Change& change : changes) peak = std::max(peak, live += change.bytes);
    return peak;
  }

  static RankTimeline summary_of(const Player& player) {
    RankTimeline timeline;
    timeline.intervals = player.times;
    for (const Interval& interval : player.times) {
      invariant(player.progress.has_ended(interval.action), "a program that is simulated was verified");
      timeline.busy_s[static_cast<std::size_t>(action(player, interval.action).lane)] +=
          interval.end_s - interval.begin_s;
    }
    timeline.overlap_s = overlap_of(player);
    timeline.peak_bytes = peak_of(player);
    return timeline;
  }

  const StepProgram& program_;
  const CostOf& cost_of_;
  std::vector<Player> players_;
};

}  // namespace

CostOf analytic_costs(const ModelPlan& plan, const Hardware& hardware) {
  return [plan, hardware](const StepProgram& program, const Action& action) {
    if (is_collective(action.op)) {
      const double ranks = ranks_along(program.mesh, action.group);
      const auto bytes = static_cast<double>(action.bytes);
      const auto messages = [&](double count, double each) {
        return count * (hardware.latency_s + each / hardware.link_bytes_per_s);
      };
      if (action.op == Op::unshard) return messages(ranks - 1, bytes);
      if (action.op == Op::reduce_scatter) return messages(ranks - 1, bytes / ranks);
      return messages(2 * (ranks - 1), bytes / ranks);
    }
    const auto index = static_cast<std::size_t>(action.subject.index);
    switch (action.subject.kind) {
      case Subject::Kind::block: {
        const BlockPlan& block = plan.blocks[index];
        return (action.op == Op::backward ? block.backward_flops : block.forward_flops) / hardware.flops_per_s;
      }
      case Subject::Kind::unit:
        return bytes_moved(plan.units[index], action.op) / ranks_along(program.mesh, action.group) /
               hardware.memory_bytes_per_s;
      default: return 0.0;
    }
  };
}

Timeline simulate(const StepProgram& program, const CostOf& cost_of) { return Simulation(program, cost_of).run(); }

Json to_chrome_trace(const StepProgram& program, const Timeline& timeline) {
  Json events = Json::array();
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const auto& actions = program.of(static_cast<Rank>(rank));
    for (int lane = 0; lane < lane_count; ++lane)
      if (std::ranges::any_of(actions, [&](const Action& action) { return action.lane == static_cast<Lane>(lane); }))
        events.push_back({{"ph", "M"},
                          {"name", "thread_name"},
                          {"pid", rank},
                          {"tid", lane},
                          {"args", {{"name", name_of(static_cast<Lane>(lane))}}}});
    for (const Interval& interval : timeline.ranks[rank].intervals) {
      const Action& action = actions[static_cast<std::size_t>(interval.action)];
      events.push_back({{"ph", "X"},
                        {"name", to_text(program, action)},
                        {"cat", name_of(action.op)},
                        {"pid", rank},
                        {"tid", static_cast<int>(action.lane)},
                        {"ts", interval.begin_s * 1e6},
                        {"dur", (interval.end_s - interval.begin_s) * 1e6},
                        {"args", {{"action", interval.action}}}});
    }
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

}  // namespace lockstep
