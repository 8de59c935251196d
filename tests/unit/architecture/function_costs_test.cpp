// Descriptions of functions and the tape that plays them. That they say what functions do:
// tests/unit/engine/memory_test.cpp.
#include "architecture/function_costs.hpp"

#include "architecture/cost_tape.hpp"

#include <boost/test/unit_test.hpp>

#include <utility>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(function_costs)

namespace {

/// The most bytes that a pass has, and those that it leaves.
std::pair<std::int64_t, std::int64_t> memory(const MemorySteps& steps) { return {most_of(steps), left_by(steps)}; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_row_parallel_product_has_all_rows_until_its_sum_is_scattered) {
  // 6 rows, 3 of each rank; 4 columns become 5; sums in fp32
  const CallRows rows{6, DType::bf16, {.ranks = 2, .rows = true}};
  const FunctionCosts costs = add_linear_costs(rows, 4, 5, 0);
  BOOST_CHECK((memory(costs.forward) == std::pair<std::int64_t, std::int64_t>(6 * 5 * 4 + 3 * 5 * 4, 3 * 5 * 4)));
  // the rounded own rows, all rows of them, and the input's gradient
  BOOST_CHECK(
      (memory(costs.backward) == std::pair<std::int64_t, std::int64_t>((3 * 5 + 6 * 5 + 6 * 4) * 2, 6 * 4 * 2)));
  BOOST_TEST(costs.forward_exchanges.size() == 1u);
  BOOST_TEST((costs.forward_exchanges[0].kind == BlockExchange::Kind::reduce_scatter));
  BOOST_TEST((costs.backward_exchanges[0].kind == BlockExchange::Kind::all_gather));
  BOOST_TEST(add_linear_costs({6, DType::bf16}, 4, 5, 0).forward_exchanges.empty());
}

BOOST_AUTO_TEST_CASE(weights_that_are_not_adjacent_need_a_wide_sum_of_their_input_gradients) {
  BOOST_TEST(most_of(linear_costs({6, DType::bf16}, 4, 5, 3).backward) == 6 * 4 * (4 + 2));
  BOOST_TEST(most_of(linear_costs({6, DType::bf16}, 4, 5).backward) == 6 * 4 * 2);
  BOOST_TEST(most_of(linear_costs({6, DType::f32}, 4, 5, 3).backward) == 6 * 4 * 4);
}

BOOST_AUTO_TEST_CASE(a_tensor_lives_until_its_last_owner_lets_go_of_it) {
  const FunctionCosts doubling{.results = {10}, .forward = {10, 3, -1}, .gradients = {5}, .backward = {5}};
  for (const auto autograd : {CostTape::Autograd::off, CostTape::Autograd::on}) {
    CostTape tape(autograd);
    CountedTensor y = tape.one(doubling, {.arguments = {tape.uncounted()}});
    BOOST_TEST(tape.live().most() == 13);
    BOOST_TEST(tape.live().now() == (tape.records() ? 12 : 10));  // with values that backward alone reads
    const CountedTensor z = tape.one(doubling, {.arguments = {y}, .saved = {y}});
    y = {};
    BOOST_TEST(tape.live().now() == (tape.records() ? 24 : 10));
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_one_tensor_are_added_in_place_and_a_norm_joins_that_of_its_branch) {
  const FunctionCosts one{.results = {10}, .forward = {10}, .gradients = {8}, .backward = {8}};
  const FunctionCosts two{.results = {10}, .forward = {10}, .gradients = {8, 8}, .backward = {8, 8}};
  CostTape tape(CostTape::Autograd::on);
  const CountedTensor x = tape.uncounted();
  const CountedTensor first =
      tape.one(norm_costs({1, DType::f32}, 2, Norm::rms_norm), {.arguments = {x}, .saved = {x}});
  const CountedTensor a = tape.one(one, {.arguments = {first}}), b = tape.one(one, {.arguments = {first}});
  const CountedTensor sum = tape.one(two, {.arguments = {a, b}, .residual = x});
  const std::int64_t before = tape.live().now();
  tape.live().forget_most();
  tape.backward(sum);
  BOOST_TEST(tape.live().most() == before + 3 * 8);  // of a or b, its argument's, and one more
  BOOST_TEST(tape.live().now() == before + 8);       // of x: one row of two fp32 numbers
}

BOOST_AUTO_TEST_SUITE_END()
