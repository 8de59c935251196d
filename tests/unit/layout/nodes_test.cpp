#include "layout/nodes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/test/unit_test.hpp>

#include <random>
#include <set>

BOOST_AUTO_TEST_SUITE(nodes)

using namespace lockstep;

namespace {

std::string torn(const Mesh& mesh, const Nodes& nodes) {
  std::string text;
  for (const SplitGroup& group : groups_across_nodes(mesh, nodes))
    text += fmt::format("{} ranks along {} on {} nodes of {} at most: rank {}\n", group.ranks,
                        fmt::join(group.axes, "+"), group.nodes, group.node_size, group.rank);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nodes_are_counted_as_they_appear) {
  BOOST_TEST((nodes_of({"b", "b", "a", "b", "c"}) == Nodes{0, 0, 1, 0, 2}));
  BOOST_TEST((full_nodes(5, 2) == Nodes{0, 0, 1, 1, 2}));
  BOOST_TEST((ranks_of_each({0, 1, 1, 0}) == 2 && ranks_of_each({3}) == 1));
  BOOST_TEST((!ranks_of_each({0, 1, 1}) && !ranks_of_each({})));
}

BOOST_AUTO_TEST_CASE(ranks_by_node_start_with_the_first_ranks_node_and_keep_their_order_on_each) {
  const auto order = [](const std::vector<std::string>& hosts) { return by_node(nodes_of(hosts)); };
  BOOST_TEST((order({"b", "a", "b", "a"}) == std::vector{0, 2, 1, 3}));
  BOOST_TEST((order({"c", "a", "b", "a", "c", "c", "b"}) == std::vector{0, 4, 5, 1, 3, 2, 6}));
  BOOST_TEST((order({"b", "b", "a", "c"}) == std::vector{0, 1, 2, 3}));  // neighbours already
  BOOST_TEST((order({"a"}) == std::vector{0}));
}

BOOST_AUTO_TEST_CASE(by_node_nodes_of_any_sizes_in_any_order_become_neighbours_and_no_rank_is_lost) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> hosts(random() % 20 + 1);
    for (std::string& host : hosts) host = fmt::to_string(random() % 5);
    const std::vector<Rank> order = by_node(nodes_of(hosts));
    BOOST_TEST(std::set(order.begin(), order.end()).size() == hosts.size());
    BOOST_TEST(order.front() == 0);
    std::vector<std::string> ended;  // hosts that others came after
    for (std::size_t i = 1; i < order.size(); ++i) {
      const auto host = [&](std::size_t at) { return hosts[static_cast<std::size_t>(order[at])]; };
      if (host(i) == host(i - 1)) {
        BOOST_TEST(order[i] > order[i - 1]);
        continue;
      }
      ended.push_back(host(i - 1));
      BOOST_TEST((std::ranges::find(ended, host(i)) == ended.end()));
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_of_the_fastest_axes_belong_on_one_node_as_far_as_it_is_large_enough) {
  const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_replicate", 2}, {"dp_shard", 2}});
  BOOST_TEST(torn(mesh, full_nodes(8, 2)) == "");
  BOOST_TEST(torn(mesh, full_nodes(8, 4)) == "");
  BOOST_TEST(torn(mesh, full_nodes(8, 8)) == "");
  BOOST_TEST(torn(mesh, {}) == "");
  // Numbered in turn over two nodes of four.
  BOOST_TEST(torn(mesh, {0, 1, 0, 1, 0, 1, 0, 1}) ==
             "2 ranks along dp_shard on 2 nodes of 4 at most: rank 0\n"
             "4 ranks along dp_replicate+dp_shard on 2 nodes of 4 at most: rank 0\n");
  // Three ranks do not divide nodes of four.
  BOOST_TEST(torn(make_mesh("world", {{"dp_replicate", 4}, {"dp_shard", 3}}), full_nodes(12, 4)) ==
             "3 ranks along dp_shard on 2 nodes of 4 at most: rank 3\n");
  // Larger than any node: it has to lie on several.
  BOOST_TEST(torn(make_mesh("world", {{"dp_shard", 8}}), full_nodes(8, 4)) == "");
}

BOOST_AUTO_TEST_CASE(a_group_is_torn_if_and_only_if_a_search_over_all_groups_finds_it_on_several_nodes) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto size = [&] { return static_cast<int>(random() % 4) + 1; };
    const Mesh mesh = make_mesh("world", {{"a", size()}, {"b", size()}, {"c", size()}});
    std::vector<std::string> hosts;
    for (Rank rank = 0; rank < world_size(mesh); ++rank) hosts.push_back(fmt::to_string(random() % 2));
    const Nodes of = nodes_of(hosts);
    const auto on_node = [&](int node) { return std::ranges::count(of, node); };
    const auto most = std::max(on_node(0), on_node(1));
    std::set<std::vector<AxisName>> expected;
    for (const std::vector<AxisName>& axes : {std::vector<AxisName>{"c"}, {"b", "c"}, {"a", "b", "c"}}) {
      std::vector<AxisName> wide;
      for (const AxisName& axis : axes)
        if (find_axis(mesh, axis)->size > 1) wide.push_back(axis);
      for (Rank rank = 0; rank < world_size(mesh); ++rank) {
        const std::vector<Rank> group = group_along(mesh, rank, axes);
        std::set<int> on;
        for (const Rank member : group) on.insert(of[static_cast<std::size_t>(member)]);
        if (on.size() > 1 && std::ssize(group) <= most) expected.insert(wide);
      }
    }
    std::set<std::vector<AxisName>> found;
    for (const SplitGroup& group : groups_across_nodes(mesh, of)) found.insert(group.axes);
    BOOST_TEST((found == expected));
  }
}

BOOST_AUTO_TEST_SUITE_END()
