#include "store/lost_elements.hpp"

#include "base/random.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(lost_elements)

namespace {

// By brute force: the row-major numbers, in `frame`, of the elements of a box.
std::set<std::int64_t> numbers_in(const Box& box, const Box& frame) {
  std::set<std::int64_t> numbers;
  for (std::int64_t i = 0; i < elements(frame); ++i) {
    std::int64_t rest = i;
    bool inside = true;
    for (std::size_t d = frame.extent.size(); d-- > 0; rest /= frame.extent[d]) {
      const std::int64_t at = frame.begin[d] + rest % frame.extent[d];
      inside = inside && at >= box.begin[d] && at < box.begin[d] + box.extent[d];
    }
    if (inside) numbers.insert(i);
  }
  return numbers;
}

// The elements of boxes that do not overlap.
std::set<std::int64_t> numbers_in(const std::vector<Box>& boxes, const Box& frame) {
  std::set<std::int64_t> numbers;
  for (const Box& box : boxes) {
    for (const std::int64_t number : numbers_in(box, frame)) BOOST_TEST(numbers.insert(number).second);
  }
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_stretch_of_a_box_is_as_few_boxes) {
  for (const Box& box :
       {Box{{}, {}}, Box{{3}, {7}}, Box{{2, 1}, {3, 4}}, Box{{0, 5, 1}, {2, 3, 4}}, Box{{1, 0, 2}, {2, 1, 3}}}) {
    for (std::int64_t first = 0; first < elements(box); ++first) {
      for (std::int64_t count = 0; first + count <= elements(box); ++count) {
        const std::vector<Box> boxes = boxes_of_stretch(box, first, count);
        std::set<std::int64_t> expected;
        for (std::int64_t i = first; i < first + count; ++i) expected.insert(i);
        BOOST_TEST((numbers_in(boxes, box) == expected));
        BOOST_TEST(boxes.size() <= std::max<std::size_t>(2 * box.extent.size(), 2) - 1);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_lies_in_no_box_is_found_whatever_the_boxes) {
  const RandomStream stream(17, "lost_elements_test");
  std::uint64_t drawn = 0;
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(stream.below(drawn++, static_cast<std::uint64_t>(limit)));
  };
  for (const Shape& shape : {Shape{}, Shape{6}, Shape{5, 4}, Shape{3, 4, 2}, Shape{0, 3}}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<Box> boxes;
      for (std::int64_t i = below(5); i > 0; --i) {
        Box box = whole(shape);
        for (std::size_t d = 0; d < shape.size(); ++d) {
          box.begin[d] = below(shape[d] + 1);
          box.extent[d] = below(shape[d] - box.begin[d] + 1);
        }
        boxes.push_back(box);
      }
      std::set<std::int64_t> expected;
      for (std::int64_t i = 0; i < elements(shape); ++i) expected.insert(i);
      for (const Box& box : boxes)
        for (const std::int64_t number : numbers_in(box, whole(shape))) expected.erase(number);
      BOOST_TEST((numbers_in(boxes_without({whole(shape)}, boxes), whole(shape)) == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(neighbours_are_told_as_one_box) {
  std::vector<Box> rows;
  for (std::int64_t row = 0; row < 8; row += 2) rows.push_back({{row, 0}, {1, 6}});
  for (std::int64_t column = 0; column < 6; ++column) rows.push_back({{5, column}, {1, 1}});
  const std::vector<Box> lost = boxes_without({whole({8, 6})}, rows);
  BOOST_TEST((lost == std::vector<Box>{{{1, 0}, {1, 6}}, {{3, 0}, {1, 6}}, {{7, 0}, {1, 6}}}));
  BOOST_TEST((boxes_without({whole({8, 6})}, {{{0, 0}, {8, 3}}}) == std::vector<Box>{{{0, 3}, {8, 3}}}));
}

BOOST_AUTO_TEST_CASE(slices_read_as_in_numpy) {
  BOOST_TEST(slice_text({{0, 0}, {64, 8}}, {512, 8}) == "[0:64, :]");
  BOOST_TEST(slice_text({{3, 2, 0}, {1, 4, 5}}, {4, 6, 5}) == "[3:4, 2:6, :]");
  BOOST_TEST(slice_text({{0}, {5}}, {5}) == "whole");
  BOOST_TEST(slice_text({{}, {}}, {}) == "whole");
}

BOOST_AUTO_TEST_SUITE_END()
