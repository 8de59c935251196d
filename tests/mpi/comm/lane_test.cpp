#include "comm/lane.hpp"

#include "comm/rank_board.hpp"
#include "harness/mpi_test.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace lockstep;
using test::world;

BOOST_AUTO_TEST_SUITE(lane)

namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

struct AllRanks {
  Session session{world().split(0, "world")};
};

std::span<std::byte> bytes_of(std::vector<double>& values) { return std::as_writable_bytes(std::span(values)); }

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_is_issued_is_done_in_order_and_each_ticket_brings_its_result, AllRanks,
                        *test::at_least(1)) {
  CommunicationLane lane(session, "test lane");
  std::vector<std::vector<double>> values;
  for (int i = 0; i < 20; ++i)
    values.emplace_back(static_cast<std::size_t>(1000 * i + 1), static_cast<double>(i + world().rank()));
  std::vector<Ticket> tickets;
  for (std::vector<double>& buffer : values)
    tickets.push_back(lane.all_reduce(bytes_of(buffer), DType::f64, Reduce::sum));
  const double ranks_summed = world().size() * (world().size() - 1) / 2.0;
  for (const int i : {19, 0, 7}) {  // waiting in another order than issuing
    lane.wait(tickets[static_cast<std::size_t>(i)]);
    const std::vector<double>& buffer = values[static_cast<std::size_t>(i)];
    BOOST_TEST(buffer.front() == i * world().size() + ranks_summed);
    BOOST_TEST(buffer.back() == buffer.front());
  }
  lane.drain();
}

BOOST_FIXTURE_TEST_CASE(communication_goes_on_while_the_caller_computes, AllRanks, *test::at_least(2)) {
  CommunicationLane lane(session, "test lane");
  std::atomic<bool> done = false;
  const Ticket ticket = lane.issue([&done](Communicator& ranks) {
    if (ranks.rank() == 0) sleep_ms(20);
    ranks.barrier();
    done = true;
  });
  while (!done) sleep_ms(1);  // nobody waits for the ticket meanwhile
  lane.wait(ticket);
  BOOST_TEST(lane.busy_s() > (world().rank() == 0 ? 0.02 : 0.0));
}

BOOST_FIXTURE_TEST_CASE(the_session_may_speak_while_the_lane_does, AllRanks, *test::at_least(2)) {
  CommunicationLane lane(session, "test lane");
  std::vector<double> large(1 << 20, 1.0);
  const Ticket ticket = lane.all_reduce(bytes_of(large), DType::f64, Reduce::sum);
  for (int i = 0; i < 50; ++i) BOOST_TEST(world().all_reduce(1.0, Reduce::sum) == world().size());
  lane.wait(ticket);
  BOOST_TEST(large.back() == world().size());
}

BOOST_FIXTURE_TEST_CASE(who_waits_for_the_lane_waits_for_other_ranks_only_while_the_lane_does, AllRanks,
                        *test::ranks({2})) {
  RankBoard board(world());  // counts this thread's waiting
  CommunicationLane lane(session, "test lane");
  std::atomic<bool> seen = false;
  const Ticket ticket = lane.issue([&](Communicator& ranks) {
    while (ranks.rank() == 1 && !seen) sleep_ms(1);  // work of its own
    ranks.barrier();
  });
  std::thread observer([&] {
    while (world().rank() == 0 && !board.mine().waits) sleep_ms(1);
    world().barrier();
    BOOST_TEST(board.mine().waits == (world().rank() == 0));
    world().barrier();
    seen = true;
  });
  lane.wait(ticket);
  observer.join();
}

BOOST_FIXTURE_TEST_CASE(a_lane_that_ends_finishes_what_was_issued, AllRanks, *test::at_least(2)) {
  std::vector<double> values(1000, 1.0);
  {
    CommunicationLane lane(session, "test lane");
    lane.all_reduce(bytes_of(values), DType::f64, Reduce::sum);
  }
  BOOST_TEST(values.back() == world().size());
}

BOOST_FIXTURE_TEST_CASE(a_failing_rank_is_not_held_up_by_a_lane_whose_partners_do_not_come, AllRanks,
                        *test::ranks({2})) {
  // Rank 0 issues a barrier that rank 1 joins only when rank 0 has thrown and its lane has given up.
  if (world().rank() == 0) {
    auto lane = std::make_unique<CommunicationLane>(session, "test lane");
    try {
      const std::unique_ptr<CommunicationLane> mine = std::move(lane);
      mine->issue([](Communicator& ranks) { ranks.barrier(); });
      throw std::runtime_error("failed");
    } catch (const std::runtime_error&) {
    }
    world().barrier();
  } else {
    CommunicationLane lane(session, "test lane");
    world().barrier();
    lane.issue([](Communicator& ranks) { ranks.barrier(); });
    lane.drain();
  }
  world().barrier();
}

BOOST_AUTO_TEST_SUITE_END()
