#include "program/simulate.hpp"

#include "base/json.hpp"
#include "program/memory_estimate.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

namespace {

/// Ends of all actions by sweeping over all ranks until no time changes any more: no lanes to advance, no order of
/// visits.
std::vector<std::vector<double>> ends_by_sweeping(const StepProgram& program, const CostOf& cost_of) {
  const int ranks = world_size(program.mesh);
  std::vector<std::vector<double>> ends;
  for (Rank rank = 0; rank < ranks; ++rank) ends.emplace_back(program.of(rank).size(), 0.0);
  bool changed = true;
  while (changed) {
    changed = false;
    for (Rank rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < program.of(rank).size(); ++i) {
        double begin = 0;
        const Action& action = program.of(rank)[i];
        for (const Rank member :
             is_collective(action.op) ? group_along(program.mesh, rank, action.group) : std::vector<Rank>{rank}) {
          const auto& theirs = program.of(member);  // one class here: the same position is the same action
          for (std::size_t j = 0; j < i; ++j)
            if (theirs[j].lane == action.lane) begin = std::max(begin, ends[static_cast<std::size_t>(member)][j]);
          for (const int wait : theirs[i].waits)
            begin = std::max(begin, ends[static_cast<std::size_t>(member)][static_cast<std::size_t>(wait)]);
        }
        const double end = begin + cost_of(program, action);
        changed |= end != ends[static_cast<std::size_t>(rank)][i];
        ends[static_cast<std::size_t>(rank)][i] = end;
      }
    }
  }
  return ends;
}

std::int64_t live_at(const RankClass& ranks, const RankTimeline& timeline, double time_s) {
  std::vector<double> begins(ranks.slots.size(), -1.0);
  std::vector<double> ends(ranks.slots.size(), 1e300);
  for (std::size_t i = 0; i < ranks.actions.size(); ++i) {
    for (const int slot : ranks.actions[i].slots.acquires)
      begins[static_cast<std::size_t>(slot)] = timeline.intervals[i].begin_s;
    for (const int slot : ranks.actions[i].slots.releases)
      ends[static_cast<std::size_t>(slot)] = timeline.intervals[i].end_s;
  }
  std::int64_t live = 0;
  for (std::size_t slot = 0; slot < ranks.slots.size(); ++slot)
    if (ranks.slots[slot].arena == Arena::device && begins[slot] <= time_s && time_s < ends[slot])
      live += ranks.slots[slot].bytes;
  return live;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulation)

BOOST_AUTO_TEST_CASE(random_programs_end_when_sweeping_until_nothing_changes_says_and_hold_what_their_slots_say) {
  std::mt19937 engine(1);
  for (int trial = 0; trial < 150; ++trial) {
    const models::Case made = models::random_case(engine);
    const StepProgram program = make_catalogue(made.mesh, made.plan, made.options).train;
    std::map<std::string, double> costs;
    for (const Action& action : program.of(0))
      costs[to_text(program, action)] = std::uniform_int_distribution<int>(1, 64)(engine);
    const CostOf cost_of = [&](const StepProgram& of, const Action& action) { return costs.at(to_text(of, action)); };
    const Timeline timeline = simulate(program, cost_of);
    const auto truth = ends_by_sweeping(program, cost_of);
    double last = 0;
    BOOST_REQUIRE_EQUAL(timeline.ranks.size(), program.classes.size());
    for (const RankTimeline& mine : timeline.ranks) {
      const Rank rank = mine.rank;
      const RankClass& ranks = program.class_of(rank);
      double overlap = 0, doubled = 0, others = 0;
      std::int64_t peak = 0;
      for (std::size_t i = 0; i < mine.intervals.size(); ++i) {
        BOOST_REQUIRE_EQUAL(mine.intervals[i].end_s, truth[static_cast<std::size_t>(rank)][i]);
        last = std::max(last, mine.intervals[i].end_s);
        peak = std::max(peak, live_at(ranks, mine, mine.intervals[i].begin_s));
        const auto computes = [&](std::size_t k) { return ranks.actions[k].lane == Lane::compute; };
        others += computes(i) ? 0 : mine.intervals[i].end_s - mine.intervals[i].begin_s;
        for (std::size_t j = 0; j < i; ++j) {
          const double both = std::max(0.0, std::min(mine.intervals[i].end_s, mine.intervals[j].end_s) -
                                                std::max(mine.intervals[i].begin_s, mine.intervals[j].begin_s));
          if (computes(i) != computes(j)) overlap += both;
          if (!computes(i) && !computes(j)) doubled += both;
        }
      }
      // Where two collectives run at once, what they overlap with counts once.
      if (doubled == 0) BOOST_REQUIRE_EQUAL(mine.overlap_s, overlap);
      BOOST_REQUIRE(mine.overlap_s <= std::min(overlap, others - doubled + 1e-9));
      BOOST_REQUIRE_EQUAL(mine.peak_bytes, peak);
      // What a collective releases may in truth be free before the estimate is sure of it.
      const bool sure = std::ranges::none_of(ranks.actions, [](const Action& action) {
        return overlaps_compute(action.op) && !action.slots.releases.empty();
      });
      BOOST_REQUIRE(!sure ? memory_of(ranks).peak_bytes >= peak : memory_of(ranks).peak_bytes == peak);
    }
    BOOST_REQUIRE_EQUAL(timeline.end_s, last);
  }
}

BOOST_AUTO_TEST_CASE(reductions_hide_beside_the_backward_of_earlier_blocks) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}});
  const StepProgram program = make_catalogue(mesh, models::tied(), {}).train;
  const Timeline timeline = simulate(program, [](const StepProgram&, const Action& action) {
    return action.op == Op::all_reduce ? 2.0 : action.op == Op::forward || action.op == Op::backward ? 3.0 : 0.0;
  });
  // Four forwards and four backwards; of four reductions only the last, of the embedding, comes after them.
  BOOST_TEST(timeline.end_s == 8 * 3 + 2);
  BOOST_TEST(timeline.ranks[0].overlap_s == 3 * 2);
  BOOST_TEST(timeline.ranks[0].busy_s[static_cast<std::size_t>(Lane::reduction)] == 4 * 2);
}

BOOST_AUTO_TEST_CASE(analytic_costs_follow_flops_bytes_and_links) {
  const ModelPlan plan = models::tied();
  const StepProgram program = make_catalogue(make_mesh("world", {{"dp_replicate", 4}}), plan, {}).train;
  const CostOf cost_of = analytic_costs(plan, {10, 100, 16, 0.5});
  std::map<std::string, double> costs;
  for (const Action& action : program.of(0)) costs[to_text(program, action)] = cost_of(program, action);
  BOOST_TEST(costs.at("forward block layer.0 mb 0") == 1.0);
  BOOST_TEST(costs.at("backward block layer.0 mb 0") == 2.0);
  BOOST_TEST(costs.at("all_reduce unit layer.0 over dp_replicate, 128 B") == 6 * (0.5 + 2));  // 6 messages of 32 bytes
  BOOST_TEST(costs.at("gradient_norm unit layer.0 over dp_replicate") == 0.32);               // a quarter each
}

BOOST_AUTO_TEST_CASE(a_chrome_trace_has_every_action_of_a_rank_of_each_class) {
  const StepProgram program = make_catalogue(make_mesh("world", {{"dp_replicate", 2}}), models::tied(), {}).train;
  const Json trace =
      to_chrome_trace(program, simulate(program, [](const StepProgram&, const Action&) { return 1e-6; }));
  std::size_t complete = 0;
  for (const Json& event : trace["traceEvents"]) complete += event["ph"] == "X";
  BOOST_TEST(complete == program.of(0).size());
  BOOST_TEST(trace["traceEvents"][2]["name"] == "forward block embedding mb 0");
  BOOST_TEST(trace["traceEvents"][2]["dur"].get<double>() == 1.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_SUITE_END()
