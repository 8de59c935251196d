// Calls against their descriptions. That the descriptions of all functions hold: tests/unit/engine/memory_test.cpp.
#include "tensor/functions/checked_function.hpp"

#include "base/error.hpp"
#include "tensor/kernels/attention_kernel.hpp"
#include "tensor/kernels/causal_products.hpp"
#include "tensor/runtime.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(checked_functions)

using namespace lockstep;

namespace {

/// Makes a result as large as its argument, with as much again while it runs, and keeps a quarter for backward, which
/// makes the gradient.
struct Copied {
  static constexpr std::string_view name = "copied";
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const FunctionCosts*) {
    const at::Tensor y = at::zeros(x.sizes(), x.options());
    const at::Tensor scratch = at::empty(x.sizes(), x.options());
    context->saved_data["quarter"] = at::empty({x.numel() / 4}, x.options());
    return y;
  }
  static FunctionCosts costs(const at::Tensor&, const FunctionCosts* described) { return *described; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {at::ones(gradients[0].sizes(), gradients[0].options()), at::Tensor()};
  }
};

constexpr std::int64_t bytes = 1 << 20;

FunctionCosts right() {
  return {.results = {bytes}, .forward = {bytes, bytes, bytes / 4, -bytes}, .gradients = {bytes}, .backward = {bytes}};
}

/// The bug that a call with such a description is; empty: none.
std::string bug_of(const FunctionCosts& described) {
  set_up_runtime(1);
  const bool before = compares_calls();
  compare_calls(true);
  std::string bug;
  try {
    const at::Tensor x = at::zeros({bytes / 4}, at::kFloat).requires_grad_(true);
    const at::Tensor y = CheckedFunction<Copied>::apply(x, &described);
    torch::autograd::backward({y}, {at::ones_like(y)});
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::bug));
    bug = error.what();
  }
  compare_calls(before);
  return bug;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_call_that_does_what_its_description_says_passes) {
  BOOST_TEST(bug_of(right()) == "");
  BOOST_TEST(bug_of({}) == "");  // not described
}

BOOST_AUTO_TEST_CASE(a_call_with_more_or_less_memory_than_its_description_is_a_bug) {
  FunctionCosts without_scratch = right();
  without_scratch.forward = {bytes, bytes / 4};
  BOOST_TEST(bug_of(without_scratch) ==
             "invariant violated: copied has at most, in forward, 2359296 bytes, and its description says 1310720");
  FunctionCosts keeps_nothing = right();
  keeps_nothing.forward = {bytes, bytes + bytes / 4, -bytes - bytes / 4};
  BOOST_TEST(
      bug_of(keeps_nothing) ==
      "invariant violated: copied leaves for its caller and for backward 1310720 bytes, and its description says "
      "1048576");
  FunctionCosts twice_in_backward = right();
  twice_in_backward.backward = {2 * bytes, -bytes};
  BOOST_TEST(bug_of(twice_in_backward) ==
             "invariant violated: copied has at most, in backward, 1048576 bytes, and its description says 2097152");
}

BOOST_AUTO_TEST_CASE(an_upper_bound_may_be_too_large_and_not_too_small) {
  FunctionCosts bound = right();
  bound.at_most = true;
  bound.forward.front() *= 2;
  BOOST_TEST(bug_of(bound) == "");
  bound.forward.front() /= 8;
  BOOST_TEST(bug_of(bound).find("copied has at most, in forward,") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(attention_kernels_take_the_scratch_memory_of_their_description) {
  set_up_runtime(1);
  constexpr std::int64_t length = 200;
  for (const std::int64_t head_size : {24, 64}) {
    if (fills_vectors(head_size) && !has_causal_products(head_size)) continue;  // takes less
    const AttentionShape shape{.heads = 4, .kv_heads = 2, .head_size = head_size};
    const auto values = [&](std::int64_t columns) {
      return std::vector<float>(static_cast<std::size_t>(length * columns), 1);
    };
    const std::vector<float> qkv = values(shape.width()), dy = values(4 * head_size);
    std::vector<float> y = dy, log_sums = values(4), dqkv = qkv;
    const std::vector<std::int64_t> starts{0, length};
    const Segments segments{starts.data(), 1};
    const AttentionScratch scratch = attention_scratch(shape, length, 1, sizeof(float), 1);
    const std::int64_t before = live_bytes();
    reset_peak_live_bytes();
    attention_forward<float>(qkv.data(), shape, segments, {}, nullptr, y.data(), log_sums.data());
    BOOST_TEST(peak_live_bytes() - before == scratch.forward);
    reset_peak_live_bytes();
    attention_backward<float>(dy.data(), qkv.data(), nullptr, log_sums.data(), shape, segments, {}, nullptr,
                              dqkv.data());
    BOOST_TEST(peak_live_bytes() - before == scratch.backward);
    // three of the four key heads of two segments at once, and no more threads than key heads
    BOOST_TEST(attention_scratch(shape, length, 2, sizeof(float), 3).forward == 3 * scratch.forward);
    BOOST_TEST(attention_scratch(shape, length, 2, sizeof(float), 9).forward == 4 * scratch.forward);
  }
}

BOOST_AUTO_TEST_SUITE_END()
