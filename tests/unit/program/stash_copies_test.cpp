// What blocks keep for backward goes to host memory beside the block that is computed then, comes back beside the one
// before its use, within the room that there is; and a program that forgets a copy or its order is caught.
#include "program/happens_before.hpp"
#include "program/memory_estimate.hpp"
#include "program/verify.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace lockstep;

namespace {

constexpr std::int64_t stash_bytes = 1000;  // of each block of models::even

struct Kept {
  ModelPlan plan;
  ProgramOptions options;
  StepProgram train;

  /// So many blocks on one rank, or on those of a pipeline.
  explicit Kept(int blocks, std::int64_t host_limit = 0, RecomputePolicy recompute = RecomputePolicy::none,
                const PipelineOptions& pipeline = {}, int ranks = 1, int micro_batches = 1)
      : plan(models::even(blocks)) {
    for (BlockPlan& block : plan.blocks) block.recomputable = true;
    options.micro_batches = micro_batches;
    options.recompute = recompute;
    options.pipeline = pipeline;
    options.update = {.clips = true, .heartbeat_bytes = 88};
    options.offload = {.activations = true, .host_limit_bytes = host_limit};
    train = make_catalogue(make_mesh("world", {{"pp", ranks}, {"dp_replicate", 1}}), plan, options).train;
  }
  RankClass& ranks() { return train.classes.front(); }
  Action& first(Op op) { return *std::ranges::find(ranks().actions, op, &Action::op); }
  Action& of(Op op, int block) {
    return *std::ranges::find_if(ranks().actions, [&](const Action& action) {
      return action.op == op && action.subject == block_subject(block);
    });
  }
  /// The blocks whose stash of the first micro-batch goes.
  std::vector<int> moved() {
    std::vector<int> blocks;
    for (const Action& action : ranks().actions)
      if (action.op == Op::offload_stash && action.micro_batch == 0) blocks.push_back(action.subject.index);
    return blocks;
  }
  std::string fault() const {
    const auto found = find_fault(train, plan, ProgramPhase::training, options);
    return found ? to_text(train, *found) : "";
  }
};

/// The most copies of one kind that have begun, and of which nothing that is computed knows an end.
int most_under_way(const RankClass& ranks, Op op) {
  const HappensBefore order(ranks.actions);
  int most = 0, last_computed = -1;
  std::vector<int> begun;
  for (int i = 0; i < static_cast<int>(ranks.actions.size()); ++i) {
    const Action& action = ranks.actions[static_cast<std::size_t>(i)];
    if (action.lane == Lane::compute) last_computed = i;
    std::erase_if(begun, [&](int copy) { return last_computed >= 0 && order.before(copy, last_computed); });
    if (action.op == op) begun.push_back(i);
    most = std::max(most, static_cast<int>(begun.size()));
  }
  return most;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stash_copies)

BOOST_AUTO_TEST_CASE(the_device_holds_what_two_blocks_keep_and_host_memory_the_rest) {
  Kept made(10);
  const auto at_once = [&](std::initializer_list<SlotKind> kinds, Arena arena) {
    RankClass alone = made.ranks();  // the same list with nothing but these slots: its peak counts them
    for (Slot& slot : alone.slots)
      if (std::ranges::find(kinds, slot.kind) == kinds.end()) slot.bytes = 0;
    return memory_of(alone, arena).peak_bytes / stash_bytes;
  };
  BOOST_TEST(made.moved() == (std::vector{0, 1, 2, 3, 4, 5, 6, 7}), boost::test_tools::per_element());
  BOOST_TEST(at_once({SlotKind::stash, SlotKind::fetched_stash}, Arena::device) == 2);
  BOOST_TEST(at_once({SlotKind::host_stash}, Arena::host) == 8);
  BOOST_TEST(memory_of(made.ranks(), Arena::host).peak_bytes == 8 * stash_bytes);
}

BOOST_AUTO_TEST_CASE(each_comes_while_what_is_before_its_backward_is_computed) {
  Kept made(5);
  std::string told;
  for (const Action& action : made.ranks().actions)
    if (action.subject.kind == Subject::Kind::block)
      told += fmt::format("{} {}\n", name_of(action.op), action.subject.index);
  BOOST_TEST(
      told ==
      "forward 0\noffload_stash 0\nforward 1\noffload_stash 1\nforward 2\noffload_stash 2\nforward 3\nforward 4\n"
      "backward 4\nfetch_stash 2\nbackward 3\nfetch_stash 1\nbackward 2\nfetch_stash 0\nbackward 1\nbackward 0\n");
}

BOOST_AUTO_TEST_CASE(what_is_computed_again_or_used_at_once_stays) {
  BOOST_TEST(Kept(10, 0, RecomputePolicy::block).moved().empty());
  BOOST_TEST(Kept(2).moved().empty());
  // Of every second block that keeps its stash.
  BOOST_TEST(Kept(8, 0, RecomputePolicy{2}).moved() == (std::vector{1, 3, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(those_that_wait_longest_go_as_far_as_host_memory_has_room) {
  for (int room = 1; room <= 9; ++room) {
    Kept made(10, room * stash_bytes + 999);
    std::vector<int> expected;
    for (int block = 0; block < std::min(room, 8); ++block) expected.push_back(block);
    BOOST_TEST(made.moved() == expected, boost::test_tools::per_element());
    BOOST_TEST(memory_of(made.ranks(), Arena::host).peak_bytes == stash_bytes * std::min(room, 8));
  }
  BOOST_TEST(Kept(10, stash_bytes - 1).moved().empty());
}

BOOST_AUTO_TEST_CASE(two_are_under_way_in_each_direction_at_most_whatever_the_schedule_and_host_memory_is_kept_within) {
  for (const PipelineSchedule schedule : pipeline_schedules) {
    const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
    for (const std::int64_t limit : {std::int64_t{0}, 3 * stash_bytes}) {
      Kept made(17, limit, RecomputePolicy::none, {.schedule = schedule, .chunks = one_stage ? 1 : 2, .stages = {}}, 4,
                8);
      std::size_t moved = 0;
      for (const RankClass& ranks : made.train.classes) {
        BOOST_TEST(most_under_way(ranks, Op::offload_stash) <= 2);
        BOOST_TEST(most_under_way(ranks, Op::fetch_stash) <= 2);
        const std::int64_t held = memory_of(ranks, Arena::host).peak_bytes;
        BOOST_TEST((limit == 0 || held <= limit));
        moved += static_cast<std::size_t>(std::ranges::count(ranks.actions, Op::offload_stash, &Action::op));
      }
      BOOST_TEST(moved > (limit == 0 ? 20U : 4U), name_of(schedule));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_program_that_forgets_a_copy_or_its_order_is_caught) {
  const auto told = [](const auto& change) {
    Kept made(6);
    BOOST_REQUIRE(made.fault().empty());
    change(made);
    return made.fault();
  };
  const auto has = [](const std::string& text, std::string_view words) {
    return text.find(words) != std::string::npos;
  };
  std::string found = told([](Kept& made) {  // the first that comes is of another block
    made.first(Op::fetch_stash).subject = block_subject(5);
  });
  BOOST_TEST(has(found, "never does fetch_stash block"), found);
  found = told([](Kept& made) { made.of(Op::backward, 2).waits.clear(); });
  BOOST_TEST(has(found, "may start before action"), found);
  found = told([](Kept& made) { made.first(Op::offload_stash).waits.clear(); });
  BOOST_TEST(has(found, "may start before action 0 (forward block block.0 mb 0) has ended"), found);
  found = told([](Kept& made) { made.first(Op::fetch_stash).waits.clear(); });
  BOOST_TEST(has(found, "may start before action"), found);
  found = told([](Kept& made) {  // let go while its copy is on its way
    const int stash = made.first(Op::offload_stash).slots.releases.front();
    made.of(Op::forward, 1).slots.releases.push_back(stash);
    made.first(Op::offload_stash).slots.releases.clear();
  });
  BOOST_TEST(!found.empty());
  found = told([](Kept& made) {  // backward reads what has gone
    made.of(Op::backward, 1).slots.releases = made.of(Op::offload_stash, 1).slots.releases;
  });
  BOOST_TEST(!found.empty());
  found = told([](Kept& made) { made.first(Op::fetch_stash).bytes += 4; });
  BOOST_TEST(has(found, "carries"), found);
  found = told([](Kept& made) { made.options.offload.activations = false; });
  BOOST_TEST(has(found, "does not belong to this step"), found);
}

BOOST_AUTO_TEST_SUITE_END()
