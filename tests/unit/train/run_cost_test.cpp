#include "train/run_cost.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(run_cost)

namespace {

CheckpointOptions saved(const std::string& every) {
  CheckpointOptions options;
  options.every = Cadence::parse(every);
  return options;
}

/// Saves and most at once, of a run of 1000 steps that evaluates.
std::pair<std::int64_t, std::int64_t> counted_saves(const CheckpointOptions& options) {
  const SaveCounts counts = count_saves(options, 1000, 2.5, 10, true);
  return {counts.saves, counts.at_once};
}

}  // namespace

BOOST_AUTO_TEST_CASE(hours_are_flops_divided_by_what_all_ranks_reach_in_an_hour) {
  // 3.6e21 FLOPs on 100 ranks of 100 TFLOP/s at 40 %: 4e15 FLOP/s, 9e5 s
  BOOST_TEST(assumed_hours(3.6e21, 1e14, 0.4, 100) == 250, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(assumed_hours(3.6e21, 1e14, 0.8, 50) == 250, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(saves_are_counted_by_steps_epochs_and_time_with_the_last_step) {
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CheckpointOptions options = saved("100");  // two last, one best, one being written
  BOOST_TEST((counted_saves(options) == Pair{10, 4}));
  options.every = Cadence::parse("300");  // 300, 600, 900 and the last
  BOOST_TEST((counted_saves(options) == Pair{4, 4}));
  options.at_end = false;
  BOOST_TEST((counted_saves(options) == Pair{3, 3}));
  BOOST_TEST((counted_saves(saved("0.5 epochs")) == Pair{5, 4}));
  BOOST_TEST((counted_saves(saved("1 epochs")) == Pair{3, 3}));  // two, and the last
  BOOST_TEST((counted_saves(saved("30m")) == Pair{21, 4}));
  BOOST_TEST((counted_saves(saved("1")) == Pair{1000, 4}));
  CheckpointOptions none;
  none.at_end = false;
  BOOST_TEST((counted_saves(none) == Pair{0, 0}));
  BOOST_TEST(count_saves(saved("100"), 1000, 2.5, 10, false).at_once == 3);  // none is the best
}

BOOST_AUTO_TEST_CASE(kept_steps_add_to_the_checkpoints_on_disk) {
  CheckpointOptions options = saved("100");
  options.keep_last = 3;
  options.keep_best = 0;
  BOOST_TEST(counted_saves(options).second == 4);
  options.keep_every = 250;  // of the steps that are saved: 500 and 1000
  BOOST_TEST(counted_saves(options).second == 6);
  options.pinned = {200, 250, 500, 5000};  // 250 and 5000 are not saved, 500 is kept already
  BOOST_TEST(counted_saves(options).second == 7);
  options.keep_last = 0;  // one is always kept
  BOOST_TEST(counted_saves(options).second == 5);
}

BOOST_AUTO_TEST_CASE(saves_that_depend_on_unknown_times_are_named) {
  const auto uncounted = [](const CheckpointOptions& options) {
    return count_saves(options, 1000, std::nullopt, std::nullopt, true).uncounted;
  };
  BOOST_TEST(uncounted(saved("100")).empty());
  BOOST_TEST(uncounted(saved("1 epochs")) == "checkpoint.every in epochs");
  BOOST_TEST(uncounted(saved("30m")) == "checkpoint.every by time");
  CheckpointOptions options = saved("100");
  options.interval = SaveInterval::parse("10m");
  BOOST_TEST(uncounted(options) == "checkpoint.interval");
  options.interval = SaveInterval::parse("auto");
  const SaveCounts counts = count_saves(options, 1000, 2.5, 10, true);
  BOOST_TEST(counts.uncounted == "checkpoint.interval auto");
  BOOST_TEST(counts.at_once == 4);
}

BOOST_AUTO_TEST_CASE(a_node_needs_the_sum_of_its_ranks_and_their_processes_in_whole_gib) {
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  // 4 + 4 GiB and two processes of half a GiB; the other node has one rank
  BOOST_TEST(node_memory({4 * gib, 4 * gib, 6 * gib}, {0, 0, 1}) == 9 * gib);
  BOOST_TEST(node_memory({4 * gib, 4 * gib + 1, 6 * gib}, {0, 0, 1}) == 10 * gib);
  BOOST_TEST(node_memory({1, 1, 10 * gib}, {0, 0, 1}) == 11 * gib);
}

BOOST_AUTO_TEST_SUITE_END()
