// Jobs in which one rank's list is not that of the program: each ends, or is found by the rank itself. They end the
// process, so that no case runs unless it is named (--run_test=mutated_jobs/NAME); tests/cli/mutations_test.py does.
#include "comm/failure.hpp"
#include "composition_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(mutated_jobs, *boost::unit_test::disabled())

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Mutation = std::function<void(RankClass&)>;

/// The first action that does `op`, or the last.
std::size_t first(const RankClass& ranks, Op op) {
  return static_cast<std::size_t>(std::ranges::find(ranks.actions, op, &Action::op) - ranks.actions.begin());
}
std::size_t last(const RankClass& ranks, Op op) {
  std::size_t position = ranks.actions.size();
  while (position-- > 0)
    if (ranks.actions[position].op == op) break;
  return position;
}

/// Takes an action out; nobody waits for it any more.
void drop(RankClass& ranks, std::size_t position) {
  ranks.actions.erase(ranks.actions.begin() + static_cast<std::ptrdiff_t>(position));
  for (Action& action : ranks.actions) {
    std::erase(action.waits, static_cast<int>(position));
    for (int& wait : action.waits) wait -= wait > static_cast<int>(position) ? 1 : 0;
  }
}

/// Puts the action at `from` before the one at `to`; waits follow.
void move_before(RankClass& ranks, std::size_t from, std::size_t to) {
  std::vector<int> order(ranks.actions.size()), now(ranks.actions.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  const auto begin = order.begin();
  std::rotate(begin + static_cast<std::ptrdiff_t>(to), begin + static_cast<std::ptrdiff_t>(from),
              begin + static_cast<std::ptrdiff_t>(from) + 1);
  std::vector<Action> moved;
  for (std::size_t i = 0; i < order.size(); ++i) {
    now[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    moved.push_back(ranks.actions[static_cast<std::size_t>(order[i])]);
  }
  for (std::size_t i = 0; i < moved.size(); ++i) {
    for (int& wait : moved[i].waits) wait = now[static_cast<std::size_t>(wait)];
    std::erase_if(moved[i].waits, [&](int wait) { return wait >= static_cast<int>(i); });
  }
  ranks.actions = std::move(moved);
}

/// One step of stages of shards, in which rank 0 alone does something else.
void run_step(const Mutation& mutate) {
  Composition how{.shards = 2, .zero = 3, .accumulate = Accumulate::shards, .family = "deep llama"};
  how.stages = 2;
  Job job(all_ranks(), how, Precision::fp32, 0.5, world().rank() == 0 ? mutate : Mutation());
  const char* const limit_s = std::getenv("LOCKSTEP_TEST_WATCHDOG");
  job.session().configure({.watchdog_s = limit_s == nullptr ? 10 : std::atof(limit_s), .injection = {}});
  try {
    job.step(0);
    std::printf("# the step ended\n");
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d failed: %s\n", world().rank(), error.what());
    throw;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(dropped_receive) {
  run_step([](RankClass& ranks) { drop(ranks, last(ranks, Op::receive_backward)); });
}
BOOST_AUTO_TEST_CASE(dropped_send) {
  run_step([](RankClass& ranks) { drop(ranks, first(ranks, Op::send_forward)); });
}
BOOST_AUTO_TEST_CASE(swapped_collectives) {
  run_step([](RankClass& ranks) {
    const std::size_t one = first(ranks, Op::reduce_scatter);
    const auto other = std::find_if(
        ranks.actions.begin() + static_cast<std::ptrdiff_t>(one) + 1, ranks.actions.end(), [&](const Action& action) {
          return action.op == Op::reduce_scatter && action.bytes != ranks.actions[one].bytes;
        });
    std::swap(ranks.actions[one].subject, other->subject);
    std::swap(ranks.actions[one].slots, other->slots);
  });
}
BOOST_AUTO_TEST_CASE(missing_reduction) {
  run_step([](RankClass& ranks) { drop(ranks, last(ranks, Op::reduce_scatter)); });
}
BOOST_AUTO_TEST_CASE(early_reshard) {
  run_step([](RankClass& ranks) {
    const std::size_t reshard = first(ranks, Op::reshard);
    move_before(ranks, reshard, reshard - 1);
  });
}
BOOST_AUTO_TEST_CASE(reduction_before_the_last_weight_gradient) {
  run_step([](RankClass& ranks) {
    const std::size_t finish = last(ranks, Op::finish_gradient);
    std::size_t backward = finish;
    while (ranks.actions[backward].op != Op::backward) --backward;
    move_before(ranks, finish, backward);
  });
}
BOOST_AUTO_TEST_CASE(slot_reused_too_soon) {
  run_step([](RankClass& ranks) {  // what the reader of a stash releases is released by an action before it
    const std::size_t backward = first(ranks, Op::backward);
    std::size_t before = backward - 1;
    while (ranks.actions[before].lane != Lane::compute) --before;
    std::vector<int>& releases = ranks.actions[before].slots.releases;
    for (const int slot : std::exchange(ranks.actions[backward].slots.releases, {})) releases.push_back(slot);
  });
}

BOOST_AUTO_TEST_SUITE_END()
