#include "layout/box_runs.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <iterator>
#include <map>

using namespace lockstep;

namespace {

// By brute force: the row-major numbers of the elements of a box.
std::vector<std::int64_t> elements_in(const Box& box, const Shape& shape) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < elements(shape); ++i) {
    std::int64_t rest = i;
    bool inside = true;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      const std::int64_t at = rest % shape[d];
      inside = inside && at >= box.begin[d] && at < box.begin[d] + box.extent[d];
    }
    if (inside) result.push_back(i);
  }
  return result;
}

// All boxes of a shape that have an element.
std::vector<Box> boxes_of(const Shape& shape) {
  std::vector<Box> boxes{{{}, {}}};
  for (const std::int64_t size : shape) {
    std::vector<Box> longer;
    for (const Box& box : boxes) {
      for (std::int64_t begin = 0; begin < size; ++begin) {
        for (std::int64_t end = begin + 1; end <= size; ++end) {
          longer.push_back(box);
          longer.back().begin.push_back(begin);
          longer.back().extent.push_back(end - begin);
        }
      }
    }
    boxes = longer;
  }
  return boxes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(box_runs)

BOOST_AUTO_TEST_CASE(a_box_is_found_in_another_view_if_there_is_one_and_only_then) {
  const std::vector<Shape> views = {{2, 3, 4}, {2, 12}, {6, 4}, {24}, {3, 8}, {4, 3, 2}, {1, 24, 1}};
  std::int64_t found = 0;
  std::int64_t absent = 0;
  for (const Shape& from : views) {
    for (const Shape& to : views) {
      std::map<std::vector<std::int64_t>, Box> boxes;
      for (const Box& box : boxes_of(to)) boxes[elements_in(box, to)] = box;
      for (const Box& box : boxes_of(from)) {
        const auto expected = boxes.find(elements_in(box, from));
        const auto view = box_in_view(box, from, to);
        BOOST_TEST(view.has_value() == (expected != boxes.end()), to_text(box) + to_text(from) + to_text(to));
        if (view && expected != boxes.end()) BOOST_TEST((*view == expected->second), to_text(*view));
        ++(view ? found : absent);
      }
    }
  }
  BOOST_TEST(found > 500);
  BOOST_TEST(absent > 500);
}

BOOST_AUTO_TEST_CASE(views_of_scalars_and_of_nothing_are_no_special_case) {
  BOOST_TEST((box_in_view(whole({}), {}, {1, 1}) == whole({1, 1})));
  BOOST_TEST((box_in_view(whole({1, 1}), {1, 1}, {}) == whole({})));
  BOOST_TEST(empty(*box_in_view(whole({0, 4}), {0, 4}, {4, 0})));
}

BOOST_AUTO_TEST_CASE(a_box_of_a_view_is_cut_into_boxes_of_the_tensor) {
  const Shape from{4, 3, 6}, to{4, 18};
  for (const Box& box : boxes_of(from)) {
    std::map<std::int64_t, int> found;
    for_each_box_in_view(box, from, to, [&](const Box& part, const Box& seen) {
      BOOST_TEST((elements_in(part, from) == elements_in(seen, to)));
      for (const std::int64_t element : elements_in(part, from)) ++found[element];
    });
    const std::vector<std::int64_t> expected = elements_in(box, from);
    BOOST_TEST(found.size() == expected.size());
    for (const std::int64_t element : expected) BOOST_TEST(found[element] == 1);
  }
  std::vector<Box> seen;  // of queries, keys and values side by side: of each the rank's columns
  for_each_box_in_view({{0, 0, 2}, {4, 3, 2}}, from, to, [&](const Box&, const Box& box) { seen.push_back(box); });
  BOOST_TEST((seen == std::vector<Box>{{{0, 2}, {4, 2}}, {{0, 8}, {4, 2}}, {{0, 14}, {4, 2}}}));
}

BOOST_AUTO_TEST_CASE(the_box_around_consecutive_elements_is_the_smallest_that_has_them) {
  const Shape shape{3, 2, 4};
  for (const Box& box : boxes_of(shape)) {
    const std::vector<std::int64_t> numbers = elements_in(box, shape);
    for (std::size_t first = 0; first < numbers.size(); ++first) {
      for (std::size_t end = first + 1; end <= numbers.size(); ++end) {
        const std::vector<std::int64_t> wanted(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                                               numbers.begin() + static_cast<std::ptrdiff_t>(end));
        const Box around = box_around(box, static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first));
        BOOST_TEST(contains(box, around));
        BOOST_TEST(std::ranges::includes(elements_in(around, shape), wanted));
        std::size_t fewest = numbers.size();
        for (const Box& other : boxes_of(shape)) {
          if (contains(box, other) && std::ranges::includes(elements_in(other, shape), wanted))
            fewest = std::min(fewest, static_cast<std::size_t>(elements(other)));
        }
        BOOST_TEST(elements(around) == static_cast<std::int64_t>(fewest));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_rows_in_another_view_are_the_fewest_that_have_all_elements_of_a_box) {
  const std::vector<Shape> views = {{2, 3, 4}, {6, 4}, {24}, {3, 8}};
  for (const Shape& from : views) {
    for (const Shape& to : views) {
      for (const Box& box : boxes_of(from)) {
        const std::vector<std::int64_t> wanted = elements_in(box, from);
        const std::int64_t row = 24 / to[0];
        const Box rows = rows_in_view(box, from, to);
        BOOST_TEST(rows.begin[0] == wanted.front() / row);
        BOOST_TEST(rows.begin[0] + rows.extent[0] == wanted.back() / row + 1);
        BOOST_TEST(elements(rows) == rows.extent[0] * row);
      }
    }
  }
  BOOST_TEST((rows_in_view(whole({1, 1}), {1, 1}, {}) == whole({})));
}

BOOST_AUTO_TEST_CASE(runs_between_boxes_of_two_views_are_the_elements_that_they_share) {
  const std::vector<Shape> views{{3, 4}, {2, 2, 3}, {6, 2}, {12}};
  for (const Shape& as_a : views) {
    for (const Shape& as_b : views) {
      for (const Box& a : boxes_of(as_a)) {
        const Box part = a.extent[0] > 1 ? rows_of(a, 1, a.extent[0] - 1) : a;
        const std::vector<std::int64_t> of_a = elements_in(a, as_a), of_part = elements_in(part, as_a);
        for (const Box& b : boxes_of(as_b)) {
          const std::vector<std::int64_t> of_b = elements_in(b, as_b);
          std::vector<std::int64_t> shared, found;
          std::ranges::set_intersection(of_part, of_b, std::back_inserter(shared));
          bool alike = true;
          for (const BoxRun& run : runs_between(part, a, as_a, b, as_b)) {
            BOOST_REQUIRE(run.length > 0);
            for (std::int64_t i = 0; i < run.length; ++i) {
              found.push_back(of_a.at(static_cast<std::size_t>(run.in_a + i)));
              alike = alike && found.back() == of_b.at(static_cast<std::size_t>(run.in_b + i));
            }
          }
          BOOST_REQUIRE((alike && found == shared));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
