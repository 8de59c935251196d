#include "program/simulate.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "program/players.hpp"
#include "program/rank_walk.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// One action's own work: floating-point operations, and bytes that it reads and writes in device memory.
struct Work {
  double flops = 0, bytes = 0;
};

Work work_of(const StepProgram& program, const ModelPlan& plan, const Action& action) {
  const auto block = [&]() -> const BlockPlan& { return plan.blocks[static_cast<std::size_t>(action.subject.index)]; };
  const auto unit = [&]() -> const UnitPlan& { return plan.units[static_cast<std::size_t>(action.subject.index)]; };
  const auto bytes = [](std::int64_t count) { return static_cast<double>(count); };
  switch (action.op) {
    case Op::forward: return {.flops = block().forward_flops};
    case Op::recompute: return {.flops = recomputation_of(block(), keeps_of(program, action.subject.index)).flops};
    case Op::backward: return {.flops = block().backward_flops};
    case Op::backward_input: return {.flops = block().backward_flops - block().backward_weight_flops};
    case Op::backward_weight: return {.flops = block().backward_weight_flops};
    case Op::gradient_norm: return {.bytes = bytes(unit().gradient_bytes)};
    case Op::optimizer:
      return {.bytes =
                  bytes(unit().gradient_bytes) + 2 * bytes(unit().master_bytes) + 2 * bytes(unit().optimizer_bytes)};
    case Op::finish_average: return {.bytes = 2 * bytes(unit().master_bytes)};
    case Op::reshard:
    case Op::finish_gradient:
    case Op::add_gradient:
    case Op::clip:
    // Copies and exchanges take the time of their link.
    case Op::receive_forward:
    case Op::send_forward:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::unshard:
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::reduce_norm:
    case Op::heartbeat:
    case Op::average_weights:
    case Op::fetch_weights:
    case Op::offload_gradient:
    case Op::fetch_state:
    case Op::offload_state:
    case Op::offload_stash:
    case Op::fetch_stash:
    case Op::reduce_loss:
    case Op::draw_tokens: return {};
  }
  fail(ExitCode::bug, "unknown Op {}", static_cast<int>(action.op));
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
  Simulation(const StepProgram& program, const CostOf& cost_of) : program_(program), cost_of_(cost_of), who_(program) {
    for (std::size_t player = 0; player < who_.count(); ++player) players_.emplace_back(who_.class_of(player));
  }

  Timeline run() {
    walk(players_.size(), [this](std::size_t player, std::size_t lane) { return advance(player, lane); });
    Timeline timeline;
    for (std::size_t player = 0; player < players_.size(); ++player) {
      timeline.ranks.push_back(summary_of(players_[player]));
      timeline.ranks.back().rank = who_.rank_of(player);
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

  bool advance(std::size_t player, std::size_t lane) {
    const int position = startable(players_[player], lane);
    if (position < 0) return false;
    const Action& mine = action(players_[player], position);
    if (is_transfer(mine.op) && !is_send(mine.op)) return false;  // its send ends both
    const std::vector<std::size_t>& members = who_.meeting(player, mine);
    const auto lane_of = [&](std::size_t member) {
      return is_transfer(mine.op) && member != player ? static_cast<std::size_t>(facts_of(counterpart_of(mine.op)).lane)
                                                      : lane;
    };
    double together = 0;
    for (const std::size_t member : members) {
      const int theirs = startable(players_[member], lane_of(member));
      if (theirs < 0 || !meet(mine, action(players_[member], theirs))) return false;
      together = std::max(together, earliest(players_[member], lane_of(member), theirs));
    }
    const double end = together + cost_of_(program_, mine);
    for (const std::size_t member : members) {
      Player& other = players_[member];
      const int theirs = startable(other, lane_of(member));
      other.times[static_cast<std::size_t>(theirs)] = {theirs, earliest(other, lane_of(member), theirs), end};
      other.progress.end(theirs);
      other.free_s[lane_of(member)] = end;
    }
    return true;
  }

  static bool meet(const Action& mine, const Action& theirs) {
    if (mine.group != theirs.group) return false;
    return !is_transfer(mine.op) || mine.op == theirs.op ||
           (theirs.op == counterpart_of(mine.op) && theirs.subject == mine.subject &&
            theirs.micro_batch == mine.micro_batch);
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

  static std::int64_t bytes_of(const Slot& slot) { return slot.arena == Arena::device ? slot.bytes : 0; }

  static std::int64_t peak_of(const Player& player) {
    struct Change {
      double time_s;
      std::int64_t bytes;
    };
    std::int64_t live = 0;
    for (const Slot& slot : player.ranks->slots)
      if (lives_all_run(slot.kind)) live += bytes_of(slot);
    std::vector<Change> changes;
    for (const Interval& interval : player.times) {
      const Slots& slots = action(player, interval.action).slots;
      for (const int slot : slots.acquires)
        changes.push_back({interval.begin_s, bytes_of(player.ranks->slots[static_cast<std::size_t>(slot)])});
      for (const int slot : slots.releases)
        changes.push_back({interval.end_s, -bytes_of(player.ranks->slots[static_cast<std::size_t>(slot)])});
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
      invariant(player.progress.has_ended(interval.action), "a simulated program runs to its end");
      timeline.busy_s[static_cast<std::size_t>(action(player, interval.action).lane)] +=
          interval.end_s - interval.begin_s;
    }
    timeline.overlap_s = overlap_of(player);
    timeline.peak_bytes = peak_of(player);
    return timeline;
  }

  const StepProgram& program_;
  const CostOf& cost_of_;
  WalkParticipants who_;
  std::vector<Player> players_;
};

}  // namespace

CostOf analytic_costs(const ModelPlan& plan, const Hardware& hardware) {
  const auto messages = [hardware](double count, double each) {
    return count * (hardware.latency_s + each / hardware.link_bytes_per_s);
  };
  /// What ranks say to each other in the middle of it.
  const auto said = [messages](const StepProgram& program, const Action& action) {
    double seconds = 0;
    for (const BlockExchange& exchange : exchanges_of(program, action)) {
      if (exchange.repeats > 0) continue;  // never, where tokens spread evenly
      const auto bytes = static_cast<double>(exchange.bytes());
      const double along = ranks_along(program.mesh, exchange.axes);
      switch (exchange.kind) {
        case BlockExchange::Kind::all_reduce: seconds += messages(2 * (along - 1), bytes / along); break;
        case BlockExchange::Kind::all_gather: seconds += messages(along - 1, bytes); break;
        case BlockExchange::Kind::reduce_scatter:
        case BlockExchange::Kind::all_to_all: seconds += messages(along - 1, bytes / along); break;
        case BlockExchange::Kind::shift: seconds += messages(1, bytes); break;
      }
    }
    return seconds;
  };
  return [=](const StepProgram& program, const Action& action) {
    if (is_copy(action.op)) return static_cast<double>(action.bytes) / hardware.host_bytes_per_s;
    if (is_transfer(action.op))
      return hardware.latency_s + static_cast<double>(action.bytes) / hardware.link_bytes_per_s;
    const double ranks = ranks_along(program.mesh, action.group);
    if (is_collective(action.op)) {
      const auto bytes = static_cast<double>(action.bytes);
      if (action.op == Op::unshard) return messages(ranks - 1, bytes);
      if (action.op == Op::reduce_scatter) return messages(ranks - 1, bytes / ranks);
      return messages(2 * (ranks - 1), bytes / ranks);
    }
    const Work work = work_of(program, plan, action);
    const double shares = exchanges_within(action) ? 1 : ranks;
    return work.flops / hardware.flops_per_s + work.bytes / shares / hardware.memory_bytes_per_s +
           said(program, action);
  };
}

CostOf block_costs(const ModelPlan& plan) {
  return [plan](const StepProgram& program, const Action& action) { return work_of(program, plan, action).flops; };
}

double bubble_share(const Timeline& timeline) {
  if (timeline.end_s <= 0) return 0;
  double least_s = timeline.end_s;
  for (const RankTimeline& times : timeline.ranks)
    least_s = std::min(least_s, times.busy_s[static_cast<std::size_t>(Lane::compute)]);
  return 1 - least_s / timeline.end_s;
}

Timeline simulate(const StepProgram& program, const CostOf& cost_of) { return Simulation(program, cost_of).run(); }

Json to_chrome_trace(const StepProgram& program, const Timeline& timeline) {
  Json events = Json::array();
  for (const RankTimeline& times : timeline.ranks) {
    const Rank rank = times.rank;
    const auto& actions = program.of(rank);
    for (int lane = 0; lane < lane_count; ++lane)
      if (std::ranges::any_of(actions, [&](const Action& action) { return action.lane == static_cast<Lane>(lane); }))
        events.push_back({{"ph", "M"},
                          {"name", "thread_name"},
                          {"pid", rank},
                          {"tid", lane},
                          {"args", {{"name", name_of(static_cast<Lane>(lane))}}}});
    for (const Interval& interval : times.intervals) {
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
