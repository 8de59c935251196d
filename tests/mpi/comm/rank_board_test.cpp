// RankBoard of ranks as other ranks see them, on one machine and on several: here "machines" are names that keep ranks
// from sharing memory.
#include "comm/rank_board.hpp"
#include "harness/driven_clock.hpp"
#include "harness/mpi_test.hpp"
#include "harness/shared_folder.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(rank_board)

namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::int64_t how_many(bool here) { return test::world().all_reduce(std::int64_t{here ? 1 : 0}, Reduce::sum); }

/// Ranks 0 and 1 are one machine, 2 and 3 another.
std::string machine_of_two() { return "machine " + std::to_string(test::world().rank() / 2); }

}  // namespace

BOOST_AUTO_TEST_CASE(every_rank_of_a_machine_sees_where_all_are) {
  test::DrivenClock clock;
  RankBoard board(test::world());
  board.enter(Phase::load, 100);
  board.share(test::world(), {});  // what a rank said before is not lost
  test::world().barrier();
  for (const RankStatus& status : board.all(0))
    BOOST_TEST((status.known && status.phase == Phase::load && status.step == 100));
  test::world().barrier();
  board.enter(Phase::forward, test::world().rank());
  clock.advance(5);
  test::world().barrier();
  const std::vector<RankStatus> all = board.all(0);
  BOOST_TEST(static_cast<int>(all.size()) == test::world().size());
  for (const RankStatus& status : all) {
    BOOST_TEST(status.rank == status.step);
    BOOST_TEST(status.host == host_name());
    BOOST_TEST((status.phase == Phase::forward && status.process == RankStatus::Process::runs));
    BOOST_TEST(status.seconds == 5);
  }
  test::world().barrier();
}

LOCKSTEP_MPI_TEST(a_rank_that_waits_in_a_collective_is_seen_waiting_and_the_one_that_does_not_come_is_not,
                  test::at_least(2)) {
  RankBoard board(test::world());
  board.share(test::world(), {});
  test::world().barrier();
  if (test::world().rank() == 1) {
    // One look must show both: between two barriers a rank may stop waiting and begin again.
    std::vector<RankStatus> all = board.all(0);
    for (; std::ranges::count_if(all, &RankStatus::waits) < test::world().size() - 1; all = board.all(0)) sleep_ms(1);
    for (const RankStatus& status : all) BOOST_TEST(status.waits == (status.rank != 1), "rank " << status.rank);
  }
  test::world().barrier();
  BOOST_TEST(!board.mine().waits);
}

BOOST_AUTO_TEST_CASE(one_rank_of_the_job_gets_the_report) {
  const test::SharedFolder folder;
  for (const bool several : {false, true}) {
    RankBoard board(test::world(), several ? machine_of_two() : "one machine");
    board.share(test::world(), folder.path);
    BOOST_TEST(how_many(board.claim_report()) == 1);
    BOOST_TEST(how_many(board.claim_report()) == 0);
    test::world().barrier();
  }
}

LOCKSTEP_MPI_TEST(another_machine_reports_when_it_sees_the_claim, test::at_least(3)) {
  const test::SharedFolder folder;
  RankBoard board(test::world(), machine_of_two());
  board.share(test::world(), folder.path);
  board.enter(Phase::save_write, 10 + test::world().rank());
  BOOST_TEST(!board.claimed_elsewhere());
  test::world().barrier();
  if (test::world().rank() == 1) {
    BOOST_TEST(board.claim_report());
    const std::vector<RankStatus> all = board.all(600);
    for (const RankStatus& status : all)
      BOOST_TEST((status.known && status.phase == Phase::save_write && status.step == 10 + status.rank),
                 "rank " << status.rank);
  } else if (test::world().rank() >= 2) {
    while (!board.claimed_elsewhere()) sleep_ms(10);
    board.report_machine();
  }
  test::world().barrier();
  BOOST_TEST(!std::filesystem::is_empty(folder.path));
  test::world().barrier();
  RankBoard of_next_job(test::world());
  of_next_job.share(test::world(), folder.path);
  BOOST_TEST(std::filesystem::is_empty(folder.path));
}

LOCKSTEP_MPI_TEST(a_machine_that_tells_nothing_is_known_to_give_no_sign, test::at_least(3)) {
  const test::SharedFolder folder;
  RankBoard board(test::world(), machine_of_two());
  board.share(test::world(), folder.path);
  if (test::world().rank() == 0) {
    for (const RankStatus& status : board.all(0.2))
      BOOST_TEST(status.known == (status.rank < 2), "rank " << status.rank);
  }
  test::world().barrier();
}

LOCKSTEP_MPI_TEST(a_rank_that_left_in_good_order_is_told_from_one_that_did_not, test::at_least(2)) {
  RankBoard board(test::world());
  board.share(test::world(), {});
  if (test::world().rank() == 1) board.leave();
  test::world().barrier();
  if (test::world().rank() == 0) {
    BOOST_TEST(board.has_left(1));
    BOOST_TEST(!board.has_left(0));
    BOOST_TEST(static_cast<int>(board.neighbours().size()) == test::world().size() - 1);
  }
  test::world().barrier();
}

BOOST_AUTO_TEST_SUITE_END()
