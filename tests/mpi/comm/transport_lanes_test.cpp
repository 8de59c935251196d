// Lanes and groups of the transport: order within a lane, none between lanes, whatever the delays; and how it ends.
#include "base/error.hpp"
#include "comm/rank_board.hpp"
#include "comm/transport.hpp"
#include "harness/mpi_test.hpp"
#include "transport_tasks.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(transport_)

LOCKSTEP_MPI_TEST(what_is_issued_on_a_lane_is_done_in_order_and_each_ticket_brings_its_result, test::at_least(1)) {
  AllRanks job;
  std::vector<std::vector<double>> values;
  for (int i = 0; i < 20; ++i)
    values.emplace_back(static_cast<std::size_t>(1000 * i + 1), static_cast<double>(i + world().rank()));
  std::vector<Ticket> tickets;
  for (std::vector<double>& buffer : values)
    tickets.push_back(job.transport.all_reduce(0, 0, bytes_of(buffer), DType::f64, Reduce::sum));
  const double ranks_summed = world().size() * (world().size() - 1) / 2.0;
  for (const int i : {19, 0, 7}) {  // waiting in another order than issuing
    job.transport.wait(tickets[static_cast<std::size_t>(i)]);
    const std::vector<double>& buffer = values[static_cast<std::size_t>(i)];
    BOOST_TEST(buffer.front() == i * world().size() + ranks_summed);
    BOOST_TEST(buffer.back() == buffer.front());
  }
  job.transport.drain();
}

LOCKSTEP_MPI_TEST(communication_goes_on_while_the_caller_computes, test::at_least(2)) {
  AllRanks job;
  std::vector<double> values(1000, 1.0);
  std::vector<OperationRecord> records;
  job.transport.take_records(records);
  if (world().rank() == 0) sleep_ms(20);
  const Ticket ticket = job.transport.all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
  while (records.empty()) {  // nobody waits for the ticket meanwhile
    sleep_ms(1);
    job.transport.take_records(records);
  }
  job.transport.wait(ticket);
  BOOST_TEST(values.back() == world().size());
  BOOST_TEST(job.transport.busy_s(0) == records.front().end_s - records.front().begin_s);
  BOOST_TEST(job.transport.busy_s(0) > 0);
  BOOST_TEST(job.transport.busy_s(1) == 0);
}

LOCKSTEP_MPI_TEST(the_session_may_speak_while_a_lane_does, test::at_least(2)) {
  AllRanks job;
  std::vector<double> large(1 << 20, 1.0);
  const Ticket ticket = job.transport.all_reduce(0, 0, bytes_of(large), DType::f64, Reduce::sum);
  for (int i = 0; i < 50; ++i) BOOST_TEST(world().all_reduce(1.0, Reduce::sum) == world().size());
  job.transport.wait(ticket);
  BOOST_TEST(large.back() == world().size());
}

LOCKSTEP_MPI_TEST(a_lane_that_waits_for_another_rank_blocks_no_other_lane, test::at_least(2)) {
  AllRanks job;
  std::vector<double> late(1 << 20), values(1 << 20, 1.0);
  const int rank = world().rank();
  Ticket waits;
  if (rank == 0) waits = job.transport.receive(0, 0, 1, bytes_of(late), 0);
  for (int i = 0; i < 20; ++i) {  // rank 1 sends only when all of these are done
    std::ranges::fill(values, 1.0);
    job.transport.wait(job.transport.all_reduce(1, 0, bytes_of(values), DType::f64, Reduce::sum));
    BOOST_TEST(values.back() == world().size());
  }
  std::ranges::fill(values, 7.0);
  if (rank == 1) waits = job.transport.send(0, 0, 0, bytes_of(values));
  job.transport.wait(waits);
  if (rank == 0) BOOST_TEST(late.back() == 7.0);
}

LOCKSTEP_MPI_TEST(every_operation_is_recorded_as_its_communicator_knows_it, test::at_least(1)) {
  AllRanks job;
  const std::vector<Rank> everyone = [&] {
    std::vector<Rank> ranks(job.size);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }();
  std::vector<OperationRecord> records;
  job.transport.take_records(records);
  for (const OperationRecord::Kind kind : kinds) {
    Task task = make_task(kind, 1, 0, job.size, job.rank, 100, DType::f32, 5);
    if (!task.issue) continue;
    const Ticket ticket = task.start(job.transport);
    job.transport.wait(ticket);
    job.transport.take_records(records);
    BOOST_TEST(records.size() == 1u);
    if (records.size() != 1) continue;
    const OperationRecord& record = records.front();
    const bool pair = kind == OperationRecord::Kind::send;
    BOOST_TEST((record.kind == kind || (pair && record.kind == OperationRecord::Kind::receive)));
    BOOST_TEST((record.lane == 1 && record.group == 0 && record.ticket == ticket));
    BOOST_TEST(*record.members == everyone, boost::test_tools::per_element());
    BOOST_TEST(record.bytes == task.bytes, name_of(kind));
    BOOST_TEST((record.dtype == (pair || kind == OperationRecord::Kind::broadcast ? DType::u8 : DType::f32)));
    BOOST_TEST(record.begin_s <= record.end_s);
  }
  std::vector<double> values{1.0};
  job.transport.wait(job.transport.all_reduce(0, 1, bytes_of(values), DType::f64, Reduce::sum));
  job.transport.take_records(records);
  BOOST_TEST((records.size() == 1 && *records.front().members == std::vector<Rank>{world().rank()}));
}

LOCKSTEP_MPI_TEST(groups_are_the_ranks_along_their_axes, test::ranks({4})) {
  Session session(world().split(0, "world"));
  Transport transport(session, make_mesh("world", {{"pp", 2}, {"dp", 2}}), {"lane"}, {{"dp"}, {"pp"}, {"pp", "dp"}});
  const int rank = world().rank();
  BOOST_TEST(transport.members(transport.group_along({"dp"})) == (std::vector<Rank>{rank / 2 * 2, rank / 2 * 2 + 1}),
             boost::test_tools::per_element());
  BOOST_TEST(transport.members(transport.group_along({"pp"})) == (std::vector<Rank>{rank % 2, rank % 2 + 2}),
             boost::test_tools::per_element());
  BOOST_TEST(transport.members(transport.group_along({"pp", "dp"})).size() == 4u);
  BOOST_CHECK_THROW(transport.group_along({"tp"}), Error);
  std::vector<double> value{std::exp2(rank)};
  transport.wait(transport.all_reduce(0, transport.group_along({"pp"}), bytes_of(value), DType::f64, Reduce::sum));
  BOOST_TEST(value.front() == (rank % 2 == 0 ? 5 : 10));
}

LOCKSTEP_MPI_TEST(arguments_that_do_not_fit_are_refused_before_anything_is_sent, test::at_least(1)) {
  AllRanks job;
  std::vector<double> values(4);
  const std::span<std::byte> bytes = bytes_of(values);
  ShardMap map{.whole_length = 4, .shard_length = 4, .pieces = std::vector<std::vector<ShardPiece>>(job.size)};
  BOOST_CHECK_THROW(job.transport.all_reduce(2, 0, bytes, DType::f64, Reduce::sum), Error);
  BOOST_CHECK_THROW(job.transport.all_reduce(0, 2, bytes, DType::f64, Reduce::sum), Error);
  BOOST_CHECK_THROW(job.transport.all_reduce(0, 0, bytes.first(9), DType::f64, Reduce::sum), Error);
  BOOST_CHECK_THROW(job.transport.send(0, 0, world().rank(), bytes), Error);
  BOOST_CHECK_THROW(job.transport.all_gather(0, 0, bytes, bytes.first(8), map, DType::f64), Error);
  map.pieces.assign(job.size, {{0, 0, 4}});
  BOOST_CHECK_THROW(job.transport.all_gather(0, 0, bytes.first(8), bytes, map, DType::f64), Error);
}

LOCKSTEP_MPI_TEST(who_waits_for_a_lane_waits_for_other_ranks_only_while_the_lane_does, test::ranks({2})) {
  AllRanks job;
  RankBoard board(world());  // counts this thread's waiting
  std::atomic<bool> seen = false;
  std::vector<double> values(10, 1.0);
  std::thread observer;
  if (world().rank() == 0) {
    observer = std::thread([&] {
      while (!board.mine().waits) sleep_ms(1);
      seen = true;
      world().barrier();
    });
  } else {
    world().barrier();  // until rank 0 is seen to wait
  }
  job.transport.wait(job.transport.all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum));
  if (observer.joinable()) observer.join();
  BOOST_TEST(seen == (world().rank() == 0));
  BOOST_TEST(!board.mine().waits);
}

LOCKSTEP_MPI_TEST(a_transport_that_ends_finishes_what_was_issued, test::at_least(2)) {
  std::vector<double> values(1000, 1.0);
  {
    AllRanks job;
    job.transport.all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
  }
  BOOST_TEST(values.back() == world().size());
}

LOCKSTEP_MPI_TEST(a_failing_rank_is_not_held_up_by_a_lane_whose_partners_do_not_come, test::ranks({2})) {
  // Rank 0 issues what rank 1 joins only when rank 0 has thrown and its transport has given up.
  static std::vector<double> values;  // outlives the thread that is left to itself
  values.assign(10, 1.0);
  Session session(world().split(0, "world"));
  const auto make = [&] {
    return std::make_unique<Transport>(session, make_mesh("world", {{"all", 2}}), std::vector<std::string>{"lane"},
                                       std::vector<std::vector<AxisName>>{{"all"}});
  };
  std::unique_ptr<Transport> made = make();
  if (world().rank() == 0) {
    try {
      const std::unique_ptr<Transport> mine = std::move(made);
      mine->all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
      throw std::runtime_error("failed");
    } catch (const std::runtime_error&) {
    }
    world().barrier();
  } else {
    world().barrier();
    made->all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
    made->drain();
  }
  world().barrier();
}

// 8 ranks, 4 lanes, all groups of a (2, 2, 2) mesh: every rank issues the lanes' operations in an interleaving of its
// own.
LOCKSTEP_MPI_TEST(lanes_and_groups_go_on_beside_each_other_whatever_the_delays, test::ranks({8})) {
  constexpr int lanes = 4, rounds = 50, per_lane = 50;
  Session session(world().split(0, "world"));
  const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp", 2}, {"tp", 2}});
  const std::vector<std::vector<AxisName>> groups{
      {"pp"}, {"dp"}, {"tp"}, {"pp", "dp"}, {"dp", "tp"}, {"pp", "tp"}, {"pp", "dp", "tp"}};
  Transport transport(session, mesh, {"a", "b", "c", "d"}, groups);
  Random own(1000 + static_cast<std::uint64_t>(world().rank()));
  std::size_t done = 0, wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<Task>> tasks(lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      Random common(static_cast<std::uint64_t>(round * lanes + lane));
      for (int i = 0; i < per_lane; ++i) {
        const auto kind = kinds[static_cast<std::size_t>(any(common, 0, kinds.size() - 1))];
        const DType dtype = sums[static_cast<std::size_t>(any(common, 0, sums.size() - 1))];
        const auto group = static_cast<int>(any(common, 0, std::ssize(groups) - 1));
        const std::int64_t length = any(common, 0, 19) == 0 ? any(common, 1000, 20000) : any(common, 0, 200);
        const std::uint64_t seed = common();
        const std::vector<Rank>& members = transport.members(group);
        const auto rank = static_cast<std::size_t>(std::ranges::find(members, world().rank()) - members.begin());
        tasks[static_cast<std::size_t>(lane)].push_back(
            make_task(kind, lane, group, members.size(), rank, length, dtype, seed));
      }
    }
    std::vector<std::size_t> next(lanes);
    std::vector<Ticket> tickets;
    for (int left = lanes * per_lane; left > 0;) {
      const auto lane = static_cast<std::size_t>(any(own, 0, lanes - 1));
      for (std::int64_t burst = any(own, 1, 9); burst > 0 && next[lane] < per_lane; --burst, --left) {
        const Task& task = tasks[lane][next[lane]++];
        if (task.issue) tickets.push_back(task.start(transport));
      }
      if (any(own, 0, 19) == 0) std::this_thread::sleep_for(std::chrono::microseconds(any(own, 0, 500)));
    }
    std::ranges::shuffle(tickets, own);
    for (const Ticket ticket : tickets) transport.wait(ticket);
    for (const std::vector<Task>& of_lane : tasks) {
      for (const Task& task : of_lane) {
        ++done;
        if (!task.right()) ++wrong;
      }
    }
  }
  BOOST_TEST(done == 10000u);
  BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
