#include "comm/lane.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "harness/mpi_test.hpp"

#include <chrono>
#include <thread>
#include <vector>

using namespace lockstep;
using test::world;

namespace {

void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::span<std::byte> bytes_of(std::vector<double>& values) { return std::as_writable_bytes(std::span(values)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(lane)

LOCKSTEP_MPI_TEST(what_is_issued_is_done_in_order_and_each_ticket_brings_its_result, test::at_least(1)) {
  CommunicationLane lane(world(), "test lane");
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

LOCKSTEP_MPI_TEST(communication_goes_on_while_the_caller_computes, test::at_least(2)) {
  // What is to be hidden is a wait for the slowest rank of 0.3 s; "computing" takes 0.3 s as well. One after the other
  // would be 0.6 s.
  CommunicationLane lane(world(), "test lane");
  world().barrier();
  const double start = monotonic_seconds();
  const Ticket ticket = lane.issue([](Communicator& ranks) {
    if (ranks.rank() == 0) sleep_s(0.3);
    ranks.barrier();
  });
  sleep_s(0.3);
  lane.wait(ticket);
  const double overlapped = monotonic_seconds() - start;
  BOOST_TEST(lane.busy_s() > 0.25);
  BOOST_TEST(overlapped < 0.55);
}

LOCKSTEP_MPI_TEST(the_session_may_speak_while_the_lane_does, test::at_least(2)) {
  CommunicationLane lane(world(), "test lane");
  std::vector<double> large(1 << 20, 1.0);
  const Ticket ticket = lane.all_reduce(bytes_of(large), DType::f64, Reduce::sum);
  for (int i = 0; i < 50; ++i) BOOST_TEST(world().all_reduce(1.0, Reduce::sum) == world().size());
  lane.wait(ticket);
  BOOST_TEST(large.back() == world().size());
}

LOCKSTEP_MPI_TEST(a_failure_is_carried_to_the_wait_and_to_all_later_ones, test::at_least(2)) {
  CommunicationLane lane(world(), "test lane");
  const Ticket good = lane.issue([](Communicator& ranks) { ranks.barrier(); });
  const Ticket bad = lane.issue([](Communicator&) { fail(ExitCode::communication, "lost"); });
  const Ticket later = lane.issue([](Communicator&) {});
  BOOST_CHECK_NO_THROW(lane.wait(good));
  BOOST_CHECK_THROW(lane.wait(bad), Error);
  BOOST_CHECK_THROW(lane.wait(later), Error);
  BOOST_CHECK_THROW(lane.drain(), Error);
}

LOCKSTEP_MPI_TEST(a_lane_that_ends_finishes_what_was_issued, test::at_least(2)) {
  std::vector<double> values(1000, 1.0);
  {
    CommunicationLane lane(world(), "test lane");
    lane.all_reduce(bytes_of(values), DType::f64, Reduce::sum);
  }
  BOOST_TEST(values.back() == world().size());
}

LOCKSTEP_MPI_TEST(a_failing_rank_is_not_held_up_by_a_lane_whose_partners_do_not_come, test::ranks({2})) {
  // Rank 0 issues a barrier that rank 1 joins only later, and throws: its lane gives up after 2 s instead of waiting.
  std::vector<std::string> word(1);
  if (world().rank() == 0) {
    const double start = monotonic_seconds();
    auto lane = std::make_unique<CommunicationLane>(world(), "test lane");
    try {
      const std::unique_ptr<CommunicationLane> mine = std::move(lane);
      mine->issue([](Communicator& ranks) { ranks.barrier(); });
      throw std::runtime_error("failed");
    } catch (const std::runtime_error&) {
    }
    BOOST_TEST(monotonic_seconds() - start < 4.0);
  } else {
    CommunicationLane lane(world(), "test lane");
    sleep_s(3.0);
    lane.issue([](Communicator& ranks) { ranks.barrier(); });
    lane.drain();
  }
  world().barrier();
}

BOOST_AUTO_TEST_SUITE_END()
