#include "store/fingerprint.hpp"
#include "base/random.hpp"
#include "layout/box_runs.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <set>

using namespace lockstep;

namespace {

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  const RandomStream stream(seed, "bytes");
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(stream.bits(i));
  return bytes;
}

// The definition, written down a second time from the header's text.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
std::uint64_t weight(std::uint64_t seed, std::uint64_t i) {
  return ((mix(seed + i % 1024) >> 32) | 1) * (mix(seed + 0x100000000u + i / 1024) | 1);
}
Fingerprint by_definition(const std::vector<std::byte>& bytes, std::size_t size) {
  const std::size_t unit = size == 8 ? 4 : size;
  Fingerprint sum;
  for (std::size_t i = 0; i < bytes.size() / unit; ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * unit, unit);
    sum.first += (bits + 1) * weight(0x6c6f636b73746570, i);
    sum.second += (bits + 1) * weight(0x66696e6765727072, i);
  }
  return sum;
}

// The bytes of a box of a whole tensor, element by element.
std::vector<std::byte> cut(const std::vector<std::byte>& bytes, const Shape& shape, const Box& box, std::size_t size) {
  std::vector<std::byte> result;
  for (std::int64_t i = 0; i < elements(shape); ++i) {
    std::int64_t rest = i;
    bool inside = true;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      const std::int64_t at = rest % shape[d];
      inside = inside && at >= box.begin[d] && at < box.begin[d] + box.extent[d];
    }
    const auto element = bytes.begin() + i * static_cast<std::int64_t>(size);
    if (inside) result.insert(result.end(), element, element + static_cast<std::int64_t>(size));
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fingerprints)

BOOST_AUTO_TEST_CASE(a_fingerprint_is_the_sum_that_the_header_defines) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const auto size = static_cast<std::size_t>(size_of(dtype));
    const auto bytes = random_bytes(5000 * size, size);
    BOOST_TEST((fingerprint({50, 100}, dtype, whole({50, 100}), bytes) == by_definition(bytes, size)));
  }
}

BOOST_AUTO_TEST_CASE(any_partition_into_boxes_adds_up_to_the_whole) {
  const RandomStream random(3, "partition");
  std::uint64_t draw = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(random.below(draw++, bound)); };
    const Shape shape{1 + below(9), 1 + below(40), 1 + below(30)};
    const DType dtype = trial % 2 == 0 ? DType::f32 : DType::i64;
    const auto size = static_cast<std::size_t>(size_of(dtype));
    const auto bytes =
        random_bytes(static_cast<std::size_t>(elements(shape)) * size, static_cast<std::uint64_t>(trial));
    std::vector<Box> boxes{whole(shape)};
    for (int cuts = 0; cuts < 6; ++cuts) {  // cut a random box at a random place of a random dim; empty boxes included
      const auto victim = static_cast<std::size_t>(below(boxes.size()));
      const auto dim = static_cast<std::size_t>(below(3));
      Box second = boxes[victim];
      const std::int64_t at = below(static_cast<std::uint64_t>(second.extent[dim]) + 1);
      boxes[victim].extent[dim] = at;
      second.begin[dim] += at;
      second.extent[dim] -= at;
      boxes.push_back(second);
    }
    Fingerprint sum;
    for (const Box& box : boxes) {
      const auto piece = cut(bytes, shape, box, size);
      const std::int64_t half =
          elements(box) / 2;  // and each box in two runs of elements, as a block-wise writer has it
      const auto split = static_cast<std::size_t>(half) * size;
      sum += fingerprint(shape, dtype, box, std::span(piece).first(split), 0);
      sum += fingerprint(shape, dtype, box, std::span(piece).subspan(split), half);
    }
    BOOST_TEST((sum == fingerprint(shape, dtype, whole(shape), bytes)));
  }
}

BOOST_AUTO_TEST_CASE(one_changed_bit_two_changed_signs_and_a_swap_show_in_both_sums) {
  const Shape shape{3000};
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const auto size = static_cast<std::size_t>(size_of(dtype));
    const auto bytes = random_bytes(3000 * size, 9);
    const Fingerprint right = fingerprint(shape, dtype, whole(shape), bytes);
    const auto differs = [&](const std::vector<std::byte>& other) {
      const Fingerprint wrong = fingerprint(shape, dtype, whole(shape), other);
      return wrong.first != right.first && wrong.second != right.second;
    };
    for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 611) {
      auto changed = bytes;
      changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      BOOST_TEST(differs(changed));
      changed[(bit / 8 + 5 * size) % bytes.size()] ^= static_cast<std::byte>(1 << bit % 8);
      BOOST_TEST(differs(changed));
    }
    for (std::size_t i = 1; i < 3000; i += 37) {
      auto swapped = bytes;
      std::swap_ranges(swapped.begin(), swapped.begin() + static_cast<std::ptrdiff_t>(size),
                       swapped.begin() + static_cast<std::ptrdiff_t>(i * size));
      if (swapped != bytes) BOOST_TEST(differs(swapped));
    }
  }
}

BOOST_AUTO_TEST_CASE(zeros_count_so_that_missing_ones_show) {
  const std::vector<std::byte> zeros(4000);
  BOOST_TEST((fingerprint({1000}, DType::f32, whole({1000}), zeros) != Fingerprint{}));
  BOOST_TEST((fingerprint({1000}, DType::f32, whole({1000}), zeros) !=
              fingerprint({1000}, DType::f32, {{0}, {999}}, std::span(zeros).first(3996))));
}

BOOST_AUTO_TEST_CASE(runs_visit_each_common_element_once_at_its_place_in_both_boxes) {
  const RandomStream random(5, "runs");
  std::uint64_t draw = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t dims = 1 + random.below(draw++, 4);
    Box a;
    Box b;
    for (std::size_t d = 0; d < dims; ++d) {
      for (Box* box : {&a, &b}) {
        box->begin.push_back(static_cast<std::int64_t>(random.below(draw++, 3)));
        box->extent.push_back(static_cast<std::int64_t>(1 + random.below(draw++, 4)));
      }
    }
    const Box region = intersect(a, b);
    std::set<std::pair<std::int64_t, std::int64_t>> expected;  // by brute force over the elements of a
    for (std::int64_t i = 0; i < elements(a); ++i) {
      std::int64_t rest = i;
      Shape at(dims);
      for (std::size_t d = dims; d-- > 0; rest /= a.extent[d]) at[d] = a.begin[d] + rest % a.extent[d];
      std::int64_t in_b = 0;
      bool inside = true;
      for (std::size_t d = 0; d < dims; ++d) {
        inside = inside && at[d] >= b.begin[d] && at[d] < b.begin[d] + b.extent[d];
        in_b = in_b * b.extent[d] + at[d] - b.begin[d];
      }
      if (inside) expected.insert({i, in_b});
    }
    std::set<std::pair<std::int64_t, std::int64_t>> visited;
    std::int64_t count = 0;
    for_each_run(region, a, b, [&](const BoxRun& run) {
      for (std::int64_t i = 0; i < run.length; ++i) visited.insert({run.in_a + i, run.in_b + i});
      count += run.length;
    });
    BOOST_TEST((visited == expected));
    BOOST_TEST(count == static_cast<std::int64_t>(expected.size()));
  }
}

BOOST_AUTO_TEST_SUITE_END()
