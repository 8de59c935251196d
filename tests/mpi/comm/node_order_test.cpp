// How mpi_world numbers ranks of several nodes. Nodes are names here: all ranks are on one machine.
#include "comm/mpi_communicator.hpp"
#include "comm/rank_board.hpp"
#include "harness/mpi_test.hpp"
#include "layout/mesh.hpp"
#include "layout/nodes.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace lockstep;
using test::world;

BOOST_AUTO_TEST_SUITE(node_order)

namespace {

/// Ranks as the launcher numbers them, on nodes with these names in turn.
std::unique_ptr<Communicator> world_on(const std::vector<std::string>& nodes) {
  const auto rank = static_cast<std::size_t>(world().rank());
  return mpi_world(LargeTransfers::read_directly, nodes[rank % nodes.size()]);
}

std::vector<Rank> counted_to(int ranks) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return all;
}

}  // namespace

LOCKSTEP_MPI_TEST(ranks_that_are_neighbours_keep_their_numbers, test::at_least(1)) {
  BOOST_TEST((world().launcher_ranks() == counted_to(world().size())));
  const std::unique_ptr<Communicator> alone = mpi_world(LargeTransfers::read_directly, std::to_string(world().rank()));
  BOOST_TEST((alone->launcher_ranks() == counted_to(world().size())));
  const std::unique_ptr<Communicator> halves =
      mpi_world(LargeTransfers::read_directly, std::to_string(world().rank() * 2 / world().size()));
  BOOST_TEST((halves->launcher_ranks() == counted_to(world().size())));
}

LOCKSTEP_MPI_TEST(ranks_of_nodes_in_turn_become_neighbours, test::at_least(2)) {
  const std::vector<std::vector<Rank>> expected{{0, 1}, {0, 2, 1}, {0, 2, 1, 3}};
  const std::unique_ptr<Communicator> ordered = world_on({"b", "a"});
  const std::vector<Rank> launched = ordered->launcher_ranks();
  if (world().size() <= 4) BOOST_TEST((launched == expected[static_cast<std::size_t>(world().size()) - 2]));
  BOOST_TEST(launched[static_cast<std::size_t>(ordered->rank())] == world().rank());
  // Unequal nodes.
  if (world().size() == 4) BOOST_TEST((world_on({"c", "a", "c", "c"})->launcher_ranks() == std::vector{0, 2, 3, 1}));
}

LOCKSTEP_MPI_TEST(the_number_is_the_same_for_all_that_is_made_of_the_world, test::at_least(2)) {
  const std::unique_ptr<Communicator> ordered = world_on({"a", "b"});
  const Rank mine = ordered->rank();
  BOOST_TEST(ordered->world_rank() == mine);
  BOOST_TEST((ordered->members() == counted_to(world().size())));
  const std::vector<std::string> told = ordered->all_gather(std::to_string(mine));
  for (std::size_t rank = 0; rank < told.size(); ++rank) BOOST_TEST(told[rank] == std::to_string(rank));
  BOOST_TEST(ordered->broadcast("from " + told[static_cast<std::size_t>(mine)], 1) == "from 1");

  const std::unique_ptr<Communicator> part = ordered->split(mine % 2, "part");
  BOOST_TEST(part->world_rank() == mine);
  std::vector<Rank> of_part;
  for (Rank rank = mine % 2; rank < world().size(); rank += 2) of_part.push_back(rank);
  BOOST_TEST((part->members() == of_part));
  std::vector<Rank> launched;
  for (const Rank rank : of_part) launched.push_back(ordered->launcher_ranks()[static_cast<std::size_t>(rank)]);
  BOOST_TEST((part->launcher_ranks() == launched));
}

LOCKSTEP_MPI_TEST(groups_along_the_fastest_axis_lie_on_one_node, test::ranks({4})) {
  const std::unique_ptr<Communicator> ordered = world_on({"a", "b"});
  const std::string mine = world().rank() % 2 == 0 ? "a" : "b";
  const std::vector<std::string> hosts = ordered->all_gather(mine);
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"dp_shard", 2}});
  BOOST_TEST(groups_across_nodes(mesh, nodes_of(hosts)).empty());
  BOOST_TEST(!groups_across_nodes(mesh, nodes_of(world().all_gather(mine))).empty());
  for (const Rank rank : group_along(mesh, ordered->rank(), {"dp_shard"}))
    BOOST_TEST(hosts[static_cast<std::size_t>(rank)] == mine);
}

LOCKSTEP_MPI_TEST(sums_go_in_the_order_of_the_new_numbers, test::at_least(3)) {
  const std::unique_ptr<Communicator> ordered = world_on({"a", "b"});
  // Of numbers whose sum depends on its order.
  const auto value_of = [](Rank rank) { return rank % 3 == 0 ? 1e16 : rank % 3 == 1 ? 1.0 : -1e16; };
  double expected = 0;
  for (Rank rank = 0; rank < ordered->size(); ++rank) expected += value_of(rank);
  BOOST_TEST(ordered->all_reduce(value_of(ordered->rank()), Reduce::sum) == expected);
}

LOCKSTEP_MPI_TEST(ranks_of_the_machine_share_their_statuses_under_the_new_numbers, test::at_least(2)) {
  const std::unique_ptr<Communicator> ordered = world_on({"a", "b"});
  RankBoard board(*ordered);
  board.share(*ordered, {});
  board.enter(Phase::forward, 10 + ordered->rank());
  ordered->barrier();
  for (const RankStatus& status : board.all(0)) BOOST_TEST((status.known && status.step == 10 + status.rank));
  ordered->barrier();
}

BOOST_AUTO_TEST_SUITE_END()
