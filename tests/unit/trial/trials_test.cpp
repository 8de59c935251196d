// Trials of all kernels on the CPU, and faults that they must find.
#include "base/error.hpp"
#include "tensor/functions/kernel_names.hpp"
#include "trial/errors.hpp"
#include "trial/speed.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>
#include <string>

BOOST_AUTO_TEST_SUITE(kernel_trials)

using namespace lockstep;
using trial::TrialErrors;
using trial::TrialSizes;
using trial::WeightForm;

namespace {

constexpr std::uint64_t seed = 5;

/// Learned positions, biases, dropout, and products with transposed weights.
TrialSizes dense_sizes() {
  TrialSizes sizes{.rows = 64, .loss_rows = 64, .columns = 320, .document = 64, .smoothing = 0.1, .elements = 5000};
  sizes.model = {
      .vocabulary = 300, .channels = 64, .layers = 2, .heads = 4, .kv_heads = 4, .head_size = 16, .feed_forward = 128};
  sizes.model.dropout = {.embedding = 0.1, .attention = 0.1, .residual = 0.1};
  return sizes;
}

/// Rotary positions, grouped heads, windows, experts beside a shared one, and all products without biases.
TrialSizes expert_sizes() {
  TrialSizes sizes = dense_sizes();
  ModelConfig& model = sizes.model;
  model.family = Family::qwen2_moe;
  model.kv_heads = 2;
  model.norm = Norm::rms_norm;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  model.positions = Positions::rotary;
  model.windows = {0, 24};
  model.query_key_norm = true;
  model.qkv_bias = model.output_bias = model.mlp_bias = false;
  model.dropout = {};
  model.experts = {.count = 8,
                   .per_token = 2,
                   .feed_forward = 48,
                   .shared_feed_forward = 56,
                   .layers = {false, true},
                   .aux_coefficient = 0.01};
  return sizes;
}

template <class T>
void check_all(const Kernels<T>& kernels, const TrialSizes& whole) {
  const TrialSizes small = small_sizes(whole);
  for (const trial::Trial& one : trial::all_trials()) {
    if (std::is_same_v<T, double> && one.kernel.ends_with("_short_state")) continue;  // not for fp64
    const bool has_no_experts = small.model.experts.count == 0;
    static const std::set<std::string_view> of_experts{
        "route",        "route_backward",   "count_choices",        "sum_by_sample",
        "aux_loss",     "group_by_expert",  "dispatch_rows",        "dispatch_backward",
        "combine_rows", "combine_backward", "grouped_gemm_rounded", "grouped_weight_gemm"};
    if (has_no_experts && of_experts.contains(one.kernel)) continue;
    for (const TrialSizes& sizes : one.cases(small)) {
      const TrialErrors errors = compare_with_reference(one, kernels, sizes, seed);
      BOOST_CHECK_MESSAGE(errors.fault.empty(),
                          table_name<T> << " " << one.kernel << " " << errors.shape << ": " << errors.fault);
    }
  }
}

void check_all_types(const TrialSizes& sizes) {
  const KernelTables tables = cpu_kernels();
  check_all(tables.f32, sizes);
  check_all(tables.f64, sizes);
  check_all(tables.bf16, sizes);
  check_all(tables.f16, sizes);
}

/// The fault that the first case of a trial finds in a kernel of the table.
template <class T>
std::string fault_of(std::string_view kernel, const Kernels<T>& kernels) {
  const trial::Trial& one = trial::trial_of(kernel);
  return compare_with_reference(one, kernels, one.cases(small_sizes(dense_sizes())).front(), seed).fault;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(each_entry_of_the_kernel_table_has_one_trial) {
  std::multiset<std::string_view> entries, tried;
  Kernels<float> kernels;
  for_each_kernel(kernels, [&](std::string_view name, auto*) { entries.insert(name); });
  for (const trial::Trial& one : trial::all_trials()) tried.insert(one.kernel);
  BOOST_TEST(entries == tried, boost::test_tools::per_element());
  BOOST_CHECK_THROW(trial::trial_of("no kernel"), Error);
}

BOOST_AUTO_TEST_CASE(kernels_of_the_cpu_are_within_their_bounds_for_a_dense_model) { check_all_types(dense_sizes()); }

BOOST_AUTO_TEST_CASE(kernels_of_the_cpu_are_within_their_bounds_for_experts_and_each_form_of_weights) {
  TrialSizes sizes = expert_sizes();
  for (const WeightForm form : {WeightForm::master_and_copy, WeightForm::only_bf16, WeightForm::compensated}) {
    sizes.weights = form;
    sizes.brief_products = true;
    check_all_types(sizes);
  }
}

BOOST_AUTO_TEST_CASE(a_kernel_that_writes_nothing_or_not_all_is_found) {
  Kernels<float> kernels = cpu_kernels().f32;
  kernels.round_to = [](const float*, std::int64_t, float*) {};
  BOOST_TEST(has(fault_of("round_to", kernels), "it leaves 4697 of 4697 values of y unwritten"));
  kernels.round_to = [](const float* x, std::int64_t count, float* y) { round_to<float>(x, count - 1, y); };
  BOOST_TEST(has(fault_of("round_to", kernels), "it leaves 1 of 4697 values of y unwritten"));
  kernels.indices_of_part = [](const std::int32_t*, std::int64_t, std::int32_t, std::int32_t, std::int32_t*) {};
  BOOST_TEST(has(fault_of("indices_of_part", kernels), "unwritten"));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_writes_beside_its_output_is_found) {
  Kernels<float> kernels = cpu_kernels().f32;
  kernels.round_to = [](const float* x, std::int64_t count, float* y) {
    round_to<float>(x, count, y);
    y[count] = 0;
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "it writes past the end of y"));
  kernels.round_to = [](const float* x, std::int64_t count, float* y) {
    round_to<float>(x, count, y);
    y[-1] = 0;
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "it writes before the begin of y"));
  kernels.round_to = [](const float* x, std::int64_t count, float* y) {
    round_to<float>(x, count, y);
    const_cast<float*>(x)[3] = 0;
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "it changes x, which it may only read"));
  kernels.gemm_rounded = [](std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b,
                            const float* bias, float* y, std::int64_t stride) {
    gemm_rounded<float>(m, n, k, a, b, bias, y, stride);
    y[n] = 0;
  };
  BOOST_TEST(has(fault_of("gemm_rounded", kernels), "it writes between the rows of y"));
}

BOOST_AUTO_TEST_CASE(a_kernel_whose_calls_differ_is_found) {
  Kernels<float> kernels = cpu_kernels().f32;
  kernels.round_to = [](const float* x, std::int64_t count, float* y) {
    static int calls = 0;
    round_to<float>(x, count, y);
    y[1] += static_cast<float>(++calls);
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "two calls with equal arguments differ in 1 of 4697 values of y"));
}

BOOST_AUTO_TEST_CASE(values_that_are_wrong_or_not_numbers_are_found) {
  Kernels<float> kernels = cpu_kernels().f32;
  kernels.round_to = [](const float* x, std::int64_t count, float* y) {
    round_to<float>(x, count, y);
    y[7] = std::numeric_limits<float>::quiet_NaN();
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "1 of 4697 values of y are NaN"));
  kernels.round_to = [](const float* x, std::int64_t count, float* y) {  // sums that were rounded to bf16
    for (std::int64_t i = 0; i < count; ++i) {
      Bf16 half;
      store(half, x[i]);
      y[i] = load(half);
    }
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "the error of y is "));
  kernels.rms_norm_forward = [](const float* x, const float* weight, double, std::int64_t rows, std::int64_t channels,
                                float* y, float* rstd) {  // another eps
    rms_norm_forward<float>(x, weight, 1e-3, rows, channels, y, rstd);
  };
  BOOST_TEST(has(fault_of("rms_norm_forward", kernels), "the error of "));
  kernels.indices_of_part = [](const std::int32_t* indices, std::int64_t count, std::int32_t first,
                               std::int32_t entries,
                               std::int32_t* own) { indices_of_part(indices, count, first, entries + 9, own); };
  BOOST_TEST(has(fault_of("indices_of_part", kernels), "values of own are wrong"));
  Kernels<Bf16> brief = cpu_kernels().bf16;
  brief.gemm_rounded = [](std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b,
                          const Bf16*, Bf16* y, std::int64_t stride) {  // without the bias
    gemm_rounded<Bf16>(m, n, k, a, b, nullptr, y, stride);
  };
  BOOST_TEST(has(fault_of("gemm_rounded", brief), "the error of y is "));
}

BOOST_AUTO_TEST_CASE(a_trial_is_timed_at_the_largest_size_that_keeps_the_limits) {
  const trial::Trial& one = trial::trial_of("round_to");
  TrialSizes sizes = dense_sizes();
  sizes.rows = 256;
  const KernelTables tables = cpu_kernels();
  const trial::TrialSpeed speed = time_trial(one, tables.bf16, sizes, seed, {.most_bytes = 1 << 20});
  BOOST_TEST(speed.shape == "1x16384");
  BOOST_TEST(speed.bytes == 16384 * 6);
  BOOST_TEST((speed.seconds > 0 && speed.rate() > 0));
  BOOST_TEST(time_trial(one, tables.bf16, sizes, seed, {.most_bytes = 1 << 15}).shape == "1x4096");
  BOOST_TEST(trial::copy_ceiling({.most_bytes = 1 << 20}) > 0);
}

BOOST_AUTO_TEST_SUITE_END()
