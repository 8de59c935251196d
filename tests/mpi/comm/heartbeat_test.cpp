#include "comm/heartbeat.hpp"

#include "comm/failure.hpp"
#include "harness/mpi_test.hpp"

#include <cmath>
#include <limits>

using namespace lockstep;
using test::world;

BOOST_AUTO_TEST_SUITE(heartbeat_)

namespace {

/// On a lane of its own.
HeartbeatData heartbeat(const HeartbeatData& mine) {
  Session session(world().split(0, "world"));
  Transport transport(session, make_mesh("world", {{"all", world().size()}}), {"heartbeat"}, {{"all"}});
  return lockstep::heartbeat(transport, 0, 0, world(), mine);
}

}  // namespace

LOCKSTEP_MPI_TEST(numbers_are_summed_and_every_rank_knows_them, test::at_least(1)) {
  const int rank = world().rank();
  const int size = world().size();
  const HeartbeatData all = heartbeat({.loss_sum = 0.5 * rank,
                                       .aux_loss_sum = 0.25,
                                       .grad_norm_squared = 2,
                                       .tokens = 100 + rank,
                                       .next_tokens = rank == size - 1 ? 7 : 0,
                                       .next_samples = 3,
                                       .loads = {1.0 * rank, 5},
                                       .failure = {}});
  const int ranks_summed = size * (size - 1) / 2;
  BOOST_TEST(all.loss_sum == 0.5 * ranks_summed);
  BOOST_TEST(all.grad_norm_squared == 2.0 * size);
  BOOST_TEST(all.tokens == 100 * size + ranks_summed);
  BOOST_TEST(all.next_tokens == 7);
  BOOST_TEST(all.aux_loss_sum == 0.25 * size);
  BOOST_TEST(all.next_samples == 3 * size);
  BOOST_TEST(all.loads == (std::vector<double>{1.0 * ranks_summed, 5.0 * size}), boost::test_tools::per_element());
  BOOST_TEST((all.stop == StopLevel::none && all.requests == Request::none));
}

LOCKSTEP_MPI_TEST(one_rank_that_is_asked_to_stop_stops_all_and_the_firmest_wins, test::at_least(2)) {
  const auto asked = [](int rank) { return rank == 1 ? StopLevel::after_step : StopLevel::none; };
  BOOST_TEST((heartbeat({.stop = asked(world().rank()), .failure = {}}).stop == StopLevel::after_step));
  const StopLevel mine = world().rank() == 0 ? StopLevel::now : StopLevel::after_step;
  BOOST_TEST((heartbeat({.stop = mine, .failure = {}}).stop == StopLevel::now));
}

LOCKSTEP_MPI_TEST(requests_of_different_ranks_are_joined, test::at_least(2)) {
  const Request mine = world().rank() == 0 ? Request::save | Request::change : Request::evaluate | Request::log;
  const Request all = heartbeat({.requests = mine, .failure = {}}).requests;
  BOOST_TEST(asks(all, Request::save));
  BOOST_TEST(asks(all, Request::evaluate));
  BOOST_TEST(asks(all, Request::log));
  BOOST_TEST(asks(all, Request::change));
  BOOST_TEST(!asks(all, Request::statistics));
  BOOST_TEST(!asks(all, Request::report));
}

LOCKSTEP_MPI_TEST(a_rank_that_failed_makes_all_throw_its_error, test::at_least(2)) {
  std::exception_ptr failure;
  if (world().rank() == 1)
    failure = std::make_exception_ptr(Error(ExitCode::numerics, "loss is not finite", "lower optimizer.lr"));
  std::string message;
  try {
    heartbeat({.failure = failure});
  } catch (const AgreedError& error) {
    message = fmt::format("{}|{}|{}", error.what(), static_cast<int>(error.code()), error.owner());
  }
  BOOST_TEST(message == fmt::format("rank 1 ({}): loss is not finite|6|1", host_name()));
  BOOST_TEST(heartbeat({.loss_sum = 1, .failure = {}}).loss_sum == world().size());  // the ranks are still in step
}

LOCKSTEP_MPI_TEST(a_loss_that_is_not_finite_on_one_rank_is_so_on_all, test::at_least(2)) {
  const double mine = world().rank() == 1 ? std::numeric_limits<double>::infinity() : 1;
  BOOST_TEST(std::isinf(heartbeat({.loss_sum = mine, .failure = {}}).loss_sum));
}

BOOST_AUTO_TEST_SUITE_END()
