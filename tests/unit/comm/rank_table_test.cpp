#include "comm/rank_table.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

namespace {

RankStatus at(int rank, Phase phase, std::int64_t step, double seconds) {
  return {.rank = rank,
          .host = "node" + std::to_string(rank / 4),
          .known = true,
          .phase = phase,
          .step = step,
          .seconds = seconds};
}

RankStatus waiting(int rank, double seconds) {
  RankStatus status = at(rank, Phase::reduction, 3, seconds);
  status.waits = true;
  return status;
}

std::vector<int> ranks_of(const std::vector<RankStatus>& statuses) {
  std::vector<int> ranks;
  for (const RankStatus& status : statuses) ranks.push_back(status.rank);
  return ranks;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(place_table)

BOOST_AUTO_TEST_CASE(who_does_not_wait_holds_up_those_who_do) {
  const std::vector<RankStatus> statuses{waiting(0, 2.96), waiting(1, 3.04), at(2, Phase::forward, 3, 3.12),
                                         waiting(3, 3.01)};
  BOOST_TEST(ranks_of(blocking_ranks(statuses)) == std::vector<int>{2}, boost::test_tools::per_element());
  BOOST_TEST(headline(blocking_ranks(statuses)) == "rank 2 (node0) in forward of step 3 for 3.1 s");
  BOOST_TEST(table_of(statuses) ==
             "  ranks 0-1,3 (node0): reduction of step 3 for 3.0 s, waiting for other ranks\n"
             "  rank 2 (node0): forward of step 3 for 3.1 s\n");
}

BOOST_AUTO_TEST_CASE(a_stopped_process_is_blamed_before_one_that_computes_also_where_it_waits) {
  std::vector<RankStatus> statuses{waiting(0, 3), at(1, Phase::forward, 3, 3), waiting(2, 3)};
  statuses[2].process = RankStatus::Process::stopped;
  BOOST_TEST(headline(blocking_ranks(statuses)) ==
             "rank 2 (node0) in reduction of step 3 for 3.0 s, the process is stopped");
  statuses[1].process = RankStatus::Process::gone;
  BOOST_TEST(ranks_of(blocking_ranks(statuses)) == (std::vector<int>{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_machine_without_a_sign_is_blamed_and_told_as_such) {
  std::vector<RankStatus> statuses{
      waiting(0, 3), waiting(1, 3.5), {.rank = 4, .host = "node1"}, {.rank = 5, .host = "node1"}};
  BOOST_TEST(ranks_of(blocking_ranks(statuses)) == (std::vector<int>{4, 5}), boost::test_tools::per_element());
  BOOST_TEST(table_of(statuses) ==
             "  ranks 0-1 (node0): reduction of step 3 for 3.0 to 3.5 s, waiting for other ranks\n"
             "  ranks 4-5 (node1): no answer, the machine has failed or is stopped\n");
}

BOOST_AUTO_TEST_CASE(where_all_wait_for_each_other_nobody_is_blamed) {
  BOOST_TEST(blocking_ranks({waiting(0, 3), waiting(1, 3)}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
