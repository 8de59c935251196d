#include "layout/mesh.hpp"

#include "base/error.hpp"
#include "layout/dtype.hpp"
#include "unit/layout/brute_force.hpp"

#include <boost/test/unit_test.hpp>

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
