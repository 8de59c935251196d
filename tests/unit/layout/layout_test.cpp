#include "layout/layout.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "layout/layout_json.hpp"
#include "unit/layout/brute_force.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;
using brute_force::Dice;
using brute_force::elements_of;
using brute_force::holdings;

namespace {

std::vector<std::int64_t> rows_held(const Layout& layout) {
  std::vector<std::int64_t> rows;
  for (Rank rank = 0; rank < world_size(layout.mesh); ++rank) rows.push_back(box_of(layout, rank).extent.at(0));
  return rows;
}

Layout rows(std::int64_t count, std::vector<Split> splits, const Mesh& mesh) {
  return {{count}, DType::f32, mesh, std::move(splits), {}};
}

/// In one of four trials it is of experts.
Layout random_layout(Dice& dice, int trial, int least_dims, int most_dims) {
  if (trial % 4 == 0) return dice.layout_of_experts(dice.shape(dice.roll(std::max(1, least_dims), most_dims)));
  return dice.layout(dice.shape(dice.roll(least_dims, most_dims)));
}

const Mesh four = make_mesh("world", {{"dp_shard", 4}});
const Mesh two_by_two = make_mesh("world", {{"dp_replicate", 2}, {"dp_shard", 2}});

bool is_usage(const Error& error, std::string_view part) {
  return error.code() == ExitCode::usage && std::string_view(error.what()).find(part) != std::string_view::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(layouts)

BOOST_AUTO_TEST_CASE(uneven_rows_leave_the_last_ranks_short_and_then_empty) {
  BOOST_TEST(rows_held(rows(9, {{{"dp_shard"}}}, four)) == (std::vector<std::int64_t>{3, 3, 3, 0}),
             boost::test_tools::per_element());
  BOOST_TEST(rows_held(rows(2, {{{"dp_shard"}}}, four)) == (std::vector<std::int64_t>{1, 1, 0, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(flattened_axes_divide_once_and_nested_ones_twice) {
  const auto flat = rows_held(rows(9, {{{"dp_replicate", "dp_shard"}}}, two_by_two));
  const auto nested = rows_held(rows(9, {{{"dp_replicate"}}, {{"dp_shard"}}}, two_by_two));
  BOOST_TEST(flat == (std::vector<std::int64_t>{3, 3, 3, 0}), boost::test_tools::per_element());
  BOOST_TEST(nested == (std::vector<std::int64_t>{3, 2, 2, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(heads_are_never_cut_and_few_of_them_are_shared_by_neighbours) {
  const auto whole_heads = rows_held(rows(3 * 64, {{{"dp_shard"}, 0, 64, 0}}, make_mesh("world", {{"dp_shard", 2}})));
  BOOST_TEST(whole_heads == (std::vector<std::int64_t>{128, 64}), boost::test_tools::per_element());
  const Layout shared = rows(2 * 64, {{{"dp_shard"}, 0, 64, 2}}, four);
  BOOST_TEST(replicas_of(shared, 0) == (std::vector<Rank>{0, 1}), boost::test_tools::per_element());
  BOOST_TEST(replicas_of(shared, 3) == (std::vector<Rank>{2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_pinned_scalar_is_nowhere_else) {
  Layout scalar = replicated({}, DType::f32, four);
  scalar.pins = {{"dp_shard", {0, 3}}};
  BOOST_TEST(!empty(box_of(scalar, 0)));
  BOOST_TEST(empty(box_of(scalar, 1)));
  BOOST_TEST(replicas_of(scalar, 0) == (std::vector<Rank>{0, 3}), boost::test_tools::per_element());
  BOOST_TEST(replicas_of(scalar, 1) == std::vector<Rank>{1}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(random_layouts_hold_exactly_the_elements_that_dealing_them_out_one_by_one_gives) {
  Dice dice(1);
  for (int trial = 0; trial < 4000; ++trial) {
    const Layout layout = random_layout(dice, trial, 0, 3);
    const auto truth = holdings(layout);
    std::set<brute_force::Element> covered;
    for (Rank rank = 0; rank < world_size(layout.mesh); ++rank) {
      const auto& held = truth[static_cast<std::size_t>(rank)];
      const Box box = box_of(layout, rank);
      BOOST_REQUIRE((elements_of(box) == held));
      BOOST_REQUIRE_EQUAL(elements(box), static_cast<std::int64_t>(held.size()));
      covered.insert(held.begin(), held.end());
    }
    BOOST_REQUIRE((covered == elements_of(whole(layout.global))));  // nobody's element is lost
  }
}

BOOST_AUTO_TEST_CASE(replicas_are_the_ranks_with_the_same_elements) {
  Dice dice(2);
  for (int trial = 0; trial < 3000; ++trial) {
    const Layout layout = random_layout(dice, trial, 0, 2);
    const auto truth = holdings(layout);
    for (Rank rank = 0; rank < world_size(layout.mesh); ++rank) {
      std::vector<Rank> same;
      for (Rank other = 0; other < world_size(layout.mesh); ++other)
        if (truth[static_cast<std::size_t>(other)] == truth[static_cast<std::size_t>(rank)]) same.push_back(other);
      if (truth[static_cast<std::size_t>(rank)].empty()) same = {rank};
      BOOST_REQUIRE((replicas_of(layout, rank) == same));
    }
  }
}

BOOST_AUTO_TEST_CASE(of_each_distinct_box_that_meets_another_one_holder_is_found) {
  Dice dice(8);
  for (int trial = 0; trial < 3000; ++trial) {
    const Layout layout = random_layout(dice, trial, 0, 3);
    Box wanted = whole(layout.global);
    for (std::size_t dim = 0; dim < wanted.begin.size(); ++dim) {
      wanted.begin[dim] = dice.roll(0, static_cast<int>(layout.global[dim]));
      wanted.extent[dim] = dice.roll(0, static_cast<int>(layout.global[dim] - wanted.begin[dim]));
    }
    const auto truth = holdings(layout);
    std::multiset<std::set<brute_force::Element>> expected, found;
    for (const std::set<brute_force::Element>& held : std::set(truth.begin(), truth.end()))
      if (std::ranges::any_of(elements_of(wanted), [&](const auto& element) { return held.contains(element); }))
        expected.insert(held);
    for (const Rank rank : holders_meeting(layout, wanted)) found.insert(truth[static_cast<std::size_t>(rank)]);
    BOOST_REQUIRE((found == expected));
  }
}

BOOST_AUTO_TEST_CASE(holders_are_equal_along_replicated_axes) {
  Dice dice(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const Layout layout = random_layout(dice, trial, 2, 2);
    const auto axes = replicated_axes(layout);
    const auto truth = holdings(layout);
    for (Rank rank = 0; rank < world_size(layout.mesh); ++rank)
      for (const Rank other : group_along(layout.mesh, rank, axes))
        BOOST_REQUIRE((truth[static_cast<std::size_t>(other)] == truth[static_cast<std::size_t>(rank)]));
  }
}

BOOST_AUTO_TEST_CASE(an_axis_replicates_where_going_along_it_leaves_all_coordinates_that_cut_or_pin_as_they_are) {
  Dice dice(5);
  for (int trial = 0; trial < 2000; ++trial) {
    const Layout layout = random_layout(dice, trial, 2, 2);
    const auto coordinates = brute_force::coordinates(layout.mesh);
    std::vector<AxisName> used, want;
    for (const Split& split : layout.splits) used.insert(used.end(), split.axes.begin(), split.axes.end());
    for (const Pin& pin : layout.pins) used.push_back(pin.axis);
    for (const Axis& axis : layout.mesh.axes) {
      const auto differ_along_it_alone = [&](const auto& one, const auto& other) {
        return std::ranges::all_of(layout.mesh.axes, [&](const Axis& any) {
          return any.name == axis.name || one.at(any.name) == other.at(any.name);
        });
      };
      bool replicates = true;
      for (const auto& one : coordinates)
        for (const auto& other : coordinates)
          if (differ_along_it_alone(one, other))
            for (const AxisName& name : used) replicates &= one.at(name) == other.at(name);
      if (replicates) want.push_back(axis.name);
    }
    BOOST_TEST_CONTEXT(to_text(to_json(layout.mesh)) << to_text(to_json(layout)))
    BOOST_REQUIRE((replicated_axes(layout) == want));
  }
}

BOOST_AUTO_TEST_CASE(experts_are_cut_among_ranks_that_share_them_out_and_those_among_ranks_that_have_the_same) {
  Mesh mesh = make_mesh("world", {{"dp_shard", 4}});
  divide_experts(mesh, 2, false, true);
  // Six experts of two rows each; ranks 0 and 2 have the first three.
  const Layout layout = rows(12, {{{"ep"}, 0, 2}, {{"ep_shard"}}}, mesh);
  BOOST_TEST(rows_held(layout) == (std::vector<std::int64_t>{3, 3, 3, 3}), boost::test_tools::per_element());
  BOOST_TEST(box_of(layout, 1).begin.at(0) == 6);
  BOOST_TEST(box_of(layout, 2).begin.at(0) == 3);
  BOOST_TEST(replicated_axes(layout).empty());
  BOOST_TEST(replicas_of(rows(12, {{{"ep"}, 0, 2}}, mesh), 1) == (std::vector<Rank>{1, 3}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(moments_have_the_same_boxes_in_another_type) {
  Dice dice(4);
  const Layout layout = dice.layout({7, 5});
  BOOST_TEST((like(layout, DType::bf16).dtype == DType::bf16));
  BOOST_TEST((like(like(layout, DType::bf16), layout.dtype) == layout));
}

BOOST_AUTO_TEST_CASE(what_is_kept_of_whole_matrices_is_cut_by_experts_alone) {
  Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_shard", 4}});
  Layout matrix = rows(12, {{{"dp_shard"}}}, mesh);
  matrix.pins = {{"pp", {1}}};
  const Layout of_rows = matrix_state_layout(matrix, {12}, DType::f64);
  BOOST_TEST((of_rows.dtype == DType::f64 && of_rows.global == Shape{12} && of_rows.splits.empty()));
  BOOST_TEST(replicas_of(of_rows, 4) == (std::vector<Rank>{4, 5, 6, 7}), boost::test_tools::per_element());
  BOOST_TEST(empty(box_of(of_rows, 3)));
  divide_experts(mesh, 2, false, true);
  // Six experts of two rows each, a number for each of five columns; ranks 1 and 3 have the last three.
  const Layout of_columns = matrix_state_layout(rows(12, {{{"ep"}, 0, 2}, {{"ep_shard"}}}, mesh), {6, 5}, DType::f32);
  BOOST_TEST((box_of(of_columns, 3) == Box{{3, 0}, {3, 5}}));
  BOOST_TEST((box_of(of_columns, 3) == box_of(of_columns, 1)));
}

BOOST_AUTO_TEST_CASE(boxes_intersect_and_contain_as_their_elements_do) {
  Dice dice(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto random_box = [&] { return Box{{dice.roll(0, 4), dice.roll(0, 4)}, {dice.roll(0, 3), dice.roll(0, 3)}}; };
    const Box a = random_box();
    const Box b = random_box();
    std::set<brute_force::Element> both;
    for (const auto& element : elements_of(a))
      if (elements_of(b).contains(element)) both.insert(element);
    BOOST_REQUIRE((elements_of(intersect(a, b)) == both));
    BOOST_REQUIRE_EQUAL(contains(a, b), both == elements_of(b));
  }
  BOOST_TEST(empty(intersect(whole({}), nothing({}))));
}

BOOST_AUTO_TEST_CASE(layouts_that_would_lose_elements_are_refused_by_name) {
  const auto refused = [](Layout layout, std::string_view part) {
    BOOST_CHECK_EXCEPTION(box_of(layout, 0), Error, [&](const Error& error) { return is_usage(error, part); });
  };
  refused(rows(9, {{{"tp"}}}, four), "axis tp, which mesh world does not have");
  refused(rows(9, {{{"dp_shard"}, 1}}, four), "splits dim 1 of a (9) tensor, which has 1 dims");
  Mesh shared_out = four;
  divide_experts(shared_out, 2, false, false);
  refused(rows(9, {{{"ep"}}, {{"dp_shard"}}}, shared_out), "a (9) tensor mixes axis dp_shard with expert axes");
  refused({{9}, DType::f32, shared_out, {}, {{"ep", {0}}}}, "a (9) tensor mixes axis ep with expert axes");
  refused(rows(9, {{{"dp_shard"}}, {{"dp_shard"}}}, four), "axis dp_shard twice");
  refused({{9}, DType::f32, four, {{{"dp_shard"}}}, {{"dp_shard", {0}}}}, "axis dp_shard twice");
  refused({{9}, DType::f32, four, {}, {{"dp_shard", {}}}}, "to no coordinate");
  refused({{9}, DType::f32, four, {}, {{"dp_shard", {4}}}}, "to 4, but its size is 4");
  refused(rows(9, {{{"dp_shard"}, 0, 0}}, four), "granule 0");
}

BOOST_AUTO_TEST_SUITE_END()
