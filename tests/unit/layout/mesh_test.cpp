#include "layout/mesh.hpp"

#include "base/error.hpp"
#include "layout/dtype.hpp"
#include "unit/layout/brute_force.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(meshes)

BOOST_AUTO_TEST_CASE(coordinates_count_like_an_odometer_whose_last_axis_is_fastest) {
  brute_force::Dice dice(1);
  for (int trial = 0; trial < 200; ++trial) {
    const Mesh mesh = dice.mesh();
    const auto truth = brute_force::coordinates(mesh);
    BOOST_REQUIRE_EQUAL(world_size(mesh), static_cast<int>(truth.size()));
    for (Rank rank = 0; rank < world_size(mesh); ++rank)
      for (const Axis& axis : mesh.axes)
        BOOST_REQUIRE_EQUAL(coordinate(mesh, rank, axis.name), truth[static_cast<std::size_t>(rank)].at(axis.name));
  }
}

BOOST_AUTO_TEST_CASE(a_group_differs_only_along_its_axes_in_the_order_in_which_they_are_named) {
  const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_shard", 3}, {"tp", 2}});
  BOOST_TEST(group_along(mesh, 3, {"dp_shard"}) == (std::vector<Rank>{1, 3, 5}), boost::test_tools::per_element());
  BOOST_TEST(group_along(mesh, 3, {"pp", "tp"}) == (std::vector<Rank>{2, 3, 8, 9}), boost::test_tools::per_element());
  BOOST_TEST(group_along(mesh, 3, {"tp", "pp"}) == (std::vector<Rank>{2, 8, 3, 9}), boost::test_tools::per_element());
  BOOST_TEST(group_along(mesh, 3, {"ring"}) == std::vector<Rank>{3}, boost::test_tools::per_element());
  BOOST_TEST(coordinate(mesh, 3, "ring") == 0);
}

BOOST_AUTO_TEST_CASE(a_cell_is_named_by_the_coordinates_along_which_its_ranks_differ_from_others) {
  const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_shard", 3}, {"ring", 1}, {"tp", 2}});
  BOOST_TEST(cell_name(mesh, 9, {"dp_shard"}) == "pp=1,tp=1");
  BOOST_TEST(cell_name(mesh, 9, {"pp", "dp_shard", "tp"}) == "all");
  BOOST_TEST(cell_name(make_mesh("world", {{"dp_replicate", 1}}), 0, {}) == "all");
}

BOOST_AUTO_TEST_CASE(ranks_that_share_out_experts_are_neighbours_of_a_stage_or_as_far_apart_as_can_be) {
  const auto groups = [](Mesh mesh, int ranks, bool apart, const std::vector<AxisName>& axes) {
    divide_experts(mesh, ranks, apart, true);
    std::set<std::vector<Rank>> all;
    for (Rank rank = 0; rank < world_size(mesh); ++rank) all.insert(group_along(mesh, rank, axes));
    return all;
  };
  using Groups = std::set<std::vector<Rank>>;
  const Mesh plain = make_mesh("world", {{"dp_shard", 3}, {"tp", 2}});
  BOOST_TEST((groups(plain, 2, false, {"ep"}) == Groups{{0, 1}, {2, 3}, {4, 5}}));
  BOOST_TEST((groups(plain, 2, false, {"ep_shard"}) == Groups{{0, 2, 4}, {1, 3, 5}}));
  BOOST_TEST((groups(plain, 3, false, {"ep"}) == Groups{{0, 1, 2}, {3, 4, 5}}));
  BOOST_TEST((groups(plain, 2, true, {"ep"}) == Groups{{0, 3}, {1, 4}, {2, 5}}));
  BOOST_TEST((groups(plain, 2, true, {"ep_shard"}) == Groups{{0, 1, 2}, {3, 4, 5}}));
  const Mesh slowest = make_mesh("world", {{"pp", 2}, {"dp_shard", 4}});
  BOOST_TEST((groups(slowest, 2, false, {"ep"}) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  BOOST_TEST((groups(slowest, 2, true, {"ep"}) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  const Mesh fastest = make_mesh("world", {{"dp_shard", 4}, {"pp", 2}});
  BOOST_TEST((groups(fastest, 2, false, {"ep"}) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  BOOST_TEST((groups(fastest, 2, true, {"ep"}) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

BOOST_AUTO_TEST_CASE(ranks_of_each_cell_share_out_experts_by_themselves) {
  for (const bool sharded : {false, true}) {
    Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_replicate", 2}, {"dp_node", 1}, {"dp_shard", 4}});
    divide_experts(mesh, 2, false, sharded);
    const AxisName others = sharded ? "ep_shard" : "ep_replicate";
    BOOST_TEST((group_along(mesh, 5, {"ep"}) == std::vector<Rank>{4, 5}));
    BOOST_TEST((group_along(mesh, 5, {others}) == std::vector<Rank>{5, 7}));
    BOOST_TEST((group_along(mesh, 5, {others, "ep"}) == std::vector<Rank>{4, 5, 6, 7}));
    BOOST_TEST((group_along(mesh, 5, {"dp_replicate"}) == std::vector<Rank>{1, 5}));  // with the same experts
    BOOST_TEST(world_size({.id = {}, .axes = mesh.expert_axes}) == 16);
  }
  Mesh apart = make_mesh("world", {{"dp_replicate", 2}, {"dp_node", 4}});
  divide_experts(apart, 2, true, false);
  BOOST_TEST((group_along(apart, 5, {"ep"}) == std::vector<Rank>{5, 7}));
  Mesh mixed = make_mesh("world", {{"dp_shard", 4}, {"dp_replicate", 2}, {"dp_node", 1}});
  BOOST_CHECK_THROW(divide_experts(mixed, 2, false, true), Error);
}

BOOST_AUTO_TEST_CASE(axes_of_experts_are_other_factors_of_the_same_ranks) {
  brute_force::Dice dice(2);
  for (int trial = 0; trial < 500; ++trial) {
    const Mesh mesh = dice.mesh_of_experts();
    const auto truth = brute_force::coordinates(mesh);
    for (Rank rank = 0; rank < world_size(mesh); ++rank) {
      for (const std::vector<Axis>* axes : {&mesh.axes, &mesh.expert_axes})
        for (const Axis& axis : *axes)
          BOOST_REQUIRE_EQUAL(coordinate(mesh, rank, axis.name), truth[static_cast<std::size_t>(rank)].at(axis.name));
      std::vector<AxisName> stage;
      for (const Axis& axis : mesh.axes)
        if (axis.name != pipeline_axis) stage.push_back(axis.name);
      std::vector<Rank> by_axes = group_along(mesh, rank, stage),
                        by_experts = group_along(mesh, rank, {expert_replica_axis, expert_shard_axis, expert_axis});
      std::ranges::sort(by_axes);
      std::ranges::sort(by_experts);
      BOOST_REQUIRE((by_axes == by_experts));
    }
  }
}

BOOST_AUTO_TEST_CASE(ranks_with_the_same_experts_cut_them_where_weights_are_sharded_and_else_are_replicas) {
  for (const bool sharded : {false, true}) {
    Mesh mesh = make_mesh("world", {{"dp_shard", 6}});
    divide_experts(mesh, 2, false, sharded);
    BOOST_TEST(find_axis(mesh, expert_axis)->size == 2);
    BOOST_TEST(find_axis(mesh, expert_shard_axis)->size == (sharded ? 3 : 1));
    BOOST_TEST(find_axis(mesh, expert_replica_axis)->size == (sharded ? 1 : 3));
    BOOST_TEST(cell_name(mesh, 3, {}) == "dp_shard=3");  // no other cells for it
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_cannot_share_out_experts_are_told_the_arithmetic) {
  const auto refused = [](Mesh mesh, int ranks, const std::string& message) {
    BOOST_CHECK_EXCEPTION(divide_experts(mesh, ranks, false, false), Error, [&](const Error& error) {
      BOOST_TEST(std::string(error.what()) == message);
      return error.code() == ExitCode::usage && mesh.expert_axes.empty();
    });
  };
  refused(make_mesh("world", {{"dp_shard", 6}}), 4,
          "cannot distribute experts over ep=4: there are 6 ranks, and 6 mod 4 is 2");
  refused(make_mesh("world", {{"pp", 2}, {"dp_shard", 3}}), 2,
          "cannot distribute experts over ep=2: there are 3 ranks per stage, and 3 mod 2 is 1");
  refused(make_mesh("world", {{"dp_shard", 2}, {"pp", 2}, {"tp", 2}}), 2,
          "cannot distribute experts over ep=2: parallel.order puts pp between other axes");
}

BOOST_AUTO_TEST_CASE(a_mesh_with_a_repeated_axis_or_an_empty_one_is_refused) {
  BOOST_CHECK_EXCEPTION(make_mesh("world", {{"tp", 2}, {"tp", 2}}), Error, [](const Error& error) {
    return std::string(error.what()) == "mesh world: axis tp is named twice";
  });
  BOOST_CHECK_EXCEPTION(make_mesh("world", {{"tp", 0}}), Error,
                        [](const Error& error) { return error.code() == ExitCode::usage; });
}

BOOST_AUTO_TEST_CASE(every_dtype_reads_back_from_its_name) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto dtype = static_cast<DType>(i);
    BOOST_TEST((parse_dtype(name_of(dtype)) == dtype));
  }
  BOOST_TEST(size_of(DType::bf16) == 2);
  BOOST_TEST(!parse_dtype("float128").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
