#include "architecture/initialise.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <vector>

using namespace lockstep;

namespace {
LogicalTensor normal_tensor(Shape shape, const std::string& name = "a.weight") {
  return {name, Role::query, std::move(shape), {Initial::Kind::normal, 0.02}, {}};
}

std::vector<double> values_of(const LogicalTensor& tensor, std::uint64_t seed, const Box& box) {
  std::vector<double> values(static_cast<std::size_t>(elements(box)));
  initialise(tensor, seed, box, values);
  return values;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(initial_values)

BOOST_AUTO_TEST_CASE(every_box_of_a_tensor_holds_the_values_of_the_whole_at_its_place) {
  const LogicalTensor tensor = normal_tensor({3, 4, 5});
  const auto all = values_of(tensor, 7, whole(tensor.shape));
  for (std::int64_t a = 0; a < 3; ++a)
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t c = 0; c < 5; ++c) {
        const Box box{{a, b, c}, {3 - a, 4 - b, 5 - c}};
        const auto part = values_of(tensor, 7, box);
        std::size_t at = 0;
        for (std::int64_t i = a; i < 3; ++i)
          for (std::int64_t j = b; j < 4; ++j)
            for (std::int64_t k = c; k < 5; ++k)
              BOOST_REQUIRE_EQUAL(part[at++], all[static_cast<std::size_t>((i * 4 + j) * 5 + k)]);
      }
}

BOOST_AUTO_TEST_CASE(empty_boxes_and_scalars_are_ordinary) {
  BOOST_TEST(values_of(normal_tensor({3, 4}), 1, {{1, 0}, {0, 4}}).empty());
  BOOST_TEST(values_of(normal_tensor({}), 1, whole({})).size() == 1u);
}

BOOST_AUTO_TEST_CASE(values_differ_by_seed_and_by_name) {
  const Box box = whole({10});
  BOOST_TEST(values_of(normal_tensor({10}), 1, box) != values_of(normal_tensor({10}), 2, box));
  BOOST_TEST(values_of(normal_tensor({10}, "a"), 1, box) != values_of(normal_tensor({10}, "b"), 1, box));
}

BOOST_AUTO_TEST_CASE(fp32_values_are_the_fp64_ones_rounded_and_have_the_declared_deviation) {
  const LogicalTensor tensor = normal_tensor({200, 100});
  const auto exact = values_of(tensor, 3, whole(tensor.shape));
  std::vector<float> rounded(exact.size());
  initialise(tensor, 3, whole(tensor.shape), std::span(rounded));
  double squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    BOOST_REQUIRE_EQUAL(rounded[i], static_cast<float>(exact[i]));
    squares += exact[i] * exact[i];
  }
  BOOST_TEST(std::sqrt(squares / 20000) == 0.02, boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(norms_start_at_one_and_biases_at_zero) {
  std::vector<float> values(3, 9.0f);
  initialise({"n", Role::attention_norm, {3}, {Initial::Kind::ones, 0}, {}}, 1, whole({3}), std::span(values));
  BOOST_TEST(values == std::vector<float>(3, 1.0f), boost::test_tools::per_element());
  initialise({"b", Role::query_bias, {3}, {Initial::Kind::zeros, 0}, {}}, 1, whole({3}), std::span(values));
  BOOST_TEST(values == std::vector<float>(3, 0.0f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_box_outside_the_tensor_is_a_bug) {
  std::vector<float> values(4);
  BOOST_CHECK_EXCEPTION(initialise(normal_tensor({3}), 1, {{0}, {4}}, std::span(values)), Error,
                        [](const Error& error) { return error.code() == ExitCode::bug; });
}

BOOST_AUTO_TEST_SUITE_END()
