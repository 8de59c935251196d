// Trials of all kernels on the CPU, and faults that they must find.
#include "base/error.hpp"
#include "tensor/functions/kernel_names.hpp"
#include "trial/errors.hpp"
#include "trial/speed.hpp"
#include "unit/trial/tried_sizes.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>

BOOST_AUTO_TEST_SUITE(kernel_trials)

using namespace lockstep;
using namespace lockstep::test;
using trial::TrialErrors;
using trial::TrialSizes;
using trial::TriedKernels;
using trial::WeightForm;

namespace {

constexpr std::uint64_t seed = 5;

template <class T>
void check_all(const Kernels<T>& of_type, const TrialSizes& whole) {
  const TriedKernels kernels{of_type, cpu_exchange_kernels()};
  for_each_small_case<T>(whole, [&](const trial::Trial& one, const TrialSizes& sizes) {
    const TrialErrors errors = compare_with_reference(one, kernels, sizes, seed);
    BOOST_CHECK_MESSAGE(errors.fault.empty(),
                        table_name<T> << " " << one.kernel << " " << errors.shape << ": " << errors.fault);
  });
}

void check_all_types(const TrialSizes& sizes) {
  const KernelTables tables = cpu_kernels();
  check_all(tables.f32, sizes);
  check_all(tables.f64, sizes);
  check_all(tables.bf16, sizes);
  check_all(tables.f16, sizes);
}

/// The fault that a case of a trial finds in a kernel of the table.
template <class T>
std::string fault_of(std::string_view kernel, const TriedKernels<T>& kernels, std::size_t of_case = 0) {
  const trial::Trial& one = trial::trial_of(kernel);
  const std::vector<TrialSizes> cases = one.cases(small_sizes(dense_sizes()), trial::number_of<T>);
  return compare_with_reference(one, kernels, cases.at(of_case), seed).fault;
}
template <class T>
std::string fault_of(std::string_view kernel, const Kernels<T>& kernels, std::size_t of_case = 0) {
  return fault_of(kernel, TriedKernels<T>{kernels}, of_case);
}
std::string fault_of(std::string_view kernel, const ExchangeKernels& kernels) {
  return fault_of(kernel, TriedKernels<Bf16>{{}, kernels});
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(each_entry_of_the_kernel_table_and_each_kernel_of_exchanges_has_one_trial) {
  std::multiset<std::string_view> entries, tried;
  Kernels<float> kernels;
  for_each_kernel(kernels, [&](std::string_view name, auto*) { entries.insert(name); });
  for_each_exchange_kernel({}, [&](std::string_view name, auto*) { entries.insert(name); });
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

BOOST_AUTO_TEST_CASE(a_kernel_that_reads_what_it_has_overwritten_in_place_is_found) {
  Kernels<float> kernels = cpu_kernels().f32;
  kernels.cross_entropy = [](const float* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                             double* losses, float* derivative) {
    for (std::int64_t i = 0; i < rows.count * rows.stride; ++i) derivative[i] = 0;
    std::vector<float> exact(static_cast<std::size_t>(rows.count * rows.stride));
    cross_entropy<float>(logits, labels, rows, target, losses, exact.data());
    std::ranges::copy(exact, derivative);
  };
  BOOST_TEST(fault_of("cross_entropy", kernels) == "");
  BOOST_TEST(has(fault_of("cross_entropy", kernels, trial::in_place), "the error of "));
  kernels.dropout = [](const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns,
                       const float* x, float* y) {
    dropout<float>(mask, places, rows, columns, x, y);
    if (y == x) dropout<float>(mask, places, rows, columns, x, y);  // twice
  };
  BOOST_TEST(fault_of("dropout", kernels) == "");
  BOOST_TEST(has(fault_of("dropout", kernels, trial::in_place), "the error of x is "));
  for (const std::string_view kernel : {"cross_entropy", "cross_entropy_derivative", "dropout"}) {
    const trial::Trial& one = trial::trial_of(kernel);
    BOOST_TEST(one.cases(dense_sizes(), trial::Number::fp32).size() == 2);
    BOOST_TEST(one.cases(dense_sizes(), trial::Number::bf16).size() == 1);  // its sums have another type
  }
}

BOOST_AUTO_TEST_CASE(faults_of_the_kernels_of_exchanges_are_found) {
  ExchangeKernels kernels = cpu_exchange_kernels();
  BOOST_TEST(fault_of("copy_pieces", kernels) == "");
  BOOST_TEST(fault_of("sum_operands", kernels) == "");
  kernels.copy_pieces = [](const MemoryCopy* copies, int count) {  // without the last one
    cpu_exchange_kernels().copy_pieces(copies, count - 1);
  };
  BOOST_TEST(has(fault_of("copy_pieces", kernels), "values of received unwritten"));
  kernels.copy_pieces = [](const MemoryCopy* copies, int count) {  // whole words of four bytes
    for (int i = 0; i < count; ++i)
      std::memmove(copies[i].to, copies[i].from, static_cast<std::size_t>((copies[i].bytes + 3) / 4 * 4));
  };
  BOOST_TEST(!fault_of("copy_pieces", kernels).empty());
  kernels.sum_operands = [](const OperandSum& sum) {
    OperandSum fewer = sum;
    --fewer.count;
    cpu_exchange_kernels().sum_operands(fewer);
  };
  BOOST_TEST(has(fault_of("sum_operands", kernels), "the error of sums is "));
  kernels.sum_operands = [](const OperandSum& sum) {
    OperandSum longer = sum;
    ++longer.elements;
    cpu_exchange_kernels().sum_operands(longer);
  };
  BOOST_TEST(has(fault_of("sum_operands", kernels), "it writes past the end of sums"));
  kernels.sum_operands = [](const OperandSum& sum) {
    OperandSum replaced = sum;
    replaced.adds = false;
    cpu_exchange_kernels().sum_operands(replaced);
  };
  BOOST_TEST(has(fault_of("sum_operands", kernels), "the error of sums is "));
}

BOOST_AUTO_TEST_CASE(a_trial_is_timed_at_the_largest_size_that_keeps_the_limits) {
  const trial::Trial& one = trial::trial_of("round_to");
  TrialSizes sizes = dense_sizes();
  sizes.rows = 256;
  const TriedKernels<Bf16> kernels{cpu_kernels().bf16};
  const trial::TrialSpeed speed = time_trial(one, kernels, sizes, seed, {.most_bytes = 1 << 20});
  BOOST_TEST(speed.shape == "1x16384");
  BOOST_TEST(speed.bytes == 16384 * 6);
  BOOST_TEST((speed.seconds > 0 && speed.rate() > 0));
  // On the CPU the 4 bytes of an input lie there twice, beside 2 bytes of output.
  BOOST_TEST(time_trial(one, kernels, sizes, seed, {.most_bytes = 10 * 4096}).shape == "1x4096");
  BOOST_TEST(time_trial(one, kernels, sizes, seed, {.most_bytes = 10 * 4096 - 1}).shape == "1x1024");
  BOOST_TEST(trial::copy_ceiling({.most_bytes = 1 << 20}) > 0);
  BOOST_TEST(trial::product_ceiling(kernels, {.most_bytes = 1 << 20}) > 0);
}

BOOST_AUTO_TEST_CASE(a_trial_whose_smallest_size_does_not_fit_is_not_timed) {
  const TriedKernels<float> kernels{cpu_kernels().f32};
  TrialSizes sizes = dense_sizes();
  sizes.model.vocabulary = sizes.columns = 1 << 18;  // 256 rows of 64 channels are few beside them
  sizes.loss_rows = 256;
  const trial::Trial& one = trial::trial_of("gemm");
  const TrialSizes logits = one.cases(sizes, trial::Number::fp32).front();
  const trial::TrialSpeed speed = time_trial(one, kernels, logits, seed, {.most_bytes = 1 << 26});
  const std::int64_t factors = 4 * (64 + 64 * (std::int64_t{1} << 18)), products = 4 * (std::int64_t{1} << 18);
  BOOST_TEST(speed.missing_bytes == 2 * factors + products);
  BOOST_TEST((!speed.is_timed() && speed.shape.empty() && speed.rate() == 0));
  BOOST_TEST(trial::product_ceiling(kernels, {.most_bytes = 1000}) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
