// The trials of train --check-device on the table of the plug-in, whose kernels are compiled for the host. Products of
// cublasLt, and Muon's iteration, which consists of them, are the CPU's here, and the own kernel computes all
// attention: product_test.cpp, glue_test.cpp and flash_attention_test.cpp test those of the plug-in. Faults in a kernel
// must be found.
#include "cuda/kernel_entries.hpp"
#include "tensor/functions/kernel_names.hpp"
#include "trial/errors.hpp"
#include "unit/trial/tried_sizes.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(cuda_trials)

using namespace lockstep;
using namespace lockstep::test;
using trial::Trial;
using trial::TrialErrors;
using trial::TrialSizes;
using trial::TriedKernels;
using trial::WeightForm;

namespace {

constexpr std::uint64_t seed = 9;

template <class T>
TriedKernels<T> kernels_of_plugin() {
  const KernelTables& tables = cuda::kernel_tables();
  if constexpr (std::is_same_v<T, float>)
    return {tables.f32, tables.exchange};
  else if constexpr (std::is_same_v<T, double>)
    return {tables.f64, tables.exchange};
  else if constexpr (std::is_same_v<T, Bf16>)
    return {tables.bf16, tables.exchange};
  else
    return {tables.f16, tables.exchange};
}

template <class T>
void check_all(const TrialSizes& whole) {
  const TriedKernels<T> kernels = kernels_of_plugin<T>();
  for_each_small_case<T>(whole, [&](const Trial& one, const TrialSizes& sizes) {
    const TrialErrors errors = compare_with_reference(one, kernels, sizes, seed);
    BOOST_CHECK_MESSAGE(errors.fault.empty(),
                        table_name<T> << " " << one.kernel << " " << errors.shape << ": " << errors.fault);
  });
}

void check_all_types(const TrialSizes& sizes) {
  check_all<float>(sizes);
  check_all<double>(sizes);
  check_all<Bf16>(sizes);
  check_all<Fp16>(sizes);
}

/// The fault that the first case of a trial finds.
template <class T>
std::string fault_of(std::string_view kernel, const TriedKernels<T>& kernels) {
  const Trial& one = trial::trial_of(kernel);
  return compare_with_reference(one, kernels, one.cases(small_sizes(expert_sizes()), trial::number_of<T>).front(), seed)
      .fault;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// A kernel with the signature of an entry that does nothing.
template <class Function>
struct Silent;
template <class... Arguments>
struct Silent<void (*)(Arguments...)> {
  static void call(Arguments...) {}
};

}  // namespace

BOOST_AUTO_TEST_CASE(all_kernels_are_within_their_bounds_for_a_dense_model) { check_all_types(dense_sizes()); }

BOOST_AUTO_TEST_CASE(all_kernels_are_within_their_bounds_for_experts) {
  TrialSizes sizes = expert_sizes();
  sizes.weights = WeightForm::master_and_copy;
  check_all_types(sizes);
}

BOOST_AUTO_TEST_CASE(updates_of_weights_in_bf16_are_within_their_bounds) {
  TrialSizes sizes = small_sizes(expert_sizes());
  for (const WeightForm form : {WeightForm::only_bf16, WeightForm::compensated})
    for (const Trial& one : trial::update_trials())
      for (TrialSizes of_case : one.cases(sizes, trial::Number::fp32)) {
        of_case.weights = form;
        const TrialErrors errors = compare_with_reference(one, kernels_of_plugin<float>(), of_case, seed);
        BOOST_CHECK_MESSAGE(errors.fault.empty(), one.kernel << " " << errors.shape << ": " << errors.fault);
      }
}

BOOST_AUTO_TEST_CASE(an_entry_that_does_nothing_is_found_whichever_it_is) {
  std::set<std::string_view> missed;
#define LOCKSTEP_SILENCE(entry)                                            \
  {                                                                        \
    TriedKernels<float> kernels = kernels_of_plugin<float>();              \
    kernels.of_type.entry = Silent<decltype(kernels.of_type.entry)>::call; \
    if (fault_of(#entry, kernels).empty()) missed.insert(#entry);          \
  }
  LOCKSTEP_KERNELS(LOCKSTEP_SILENCE)
#undef LOCKSTEP_SILENCE
#define LOCKSTEP_SILENCE(entry)                                              \
  {                                                                          \
    TriedKernels<float> kernels = kernels_of_plugin<float>();                \
    kernels.exchange.entry = Silent<decltype(kernels.exchange.entry)>::call; \
    if (fault_of(#entry, kernels).empty()) missed.insert(#entry);            \
  }
  LOCKSTEP_EXCHANGE_KERNELS(LOCKSTEP_SILENCE)
#undef LOCKSTEP_SILENCE
  BOOST_TEST(missed == std::set<std::string_view>{}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_last_value_that_stays_unwritten_is_found) {
  TriedKernels<Bf16> kernels = kernels_of_plugin<Bf16>();
  kernels.of_type.round_to = [](const float* x, std::int64_t count, Bf16* y) {
    cuda::kernel_tables().bf16.round_to(x, count - 1, y);
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "it leaves 1 of 4697 values of y unwritten"));
  kernels.exchange.sum_operands = [](const OperandSum& sum) {
    OperandSum fewer = sum;
    --fewer.elements;
    cuda::kernel_tables().exchange.sum_operands(fewer);
  };
  BOOST_TEST(has(fault_of("sum_operands", kernels), "the error of sums is "));
}

BOOST_AUTO_TEST_CASE(a_value_that_is_written_one_too_far_is_found) {
  TriedKernels<Fp16> kernels = kernels_of_plugin<Fp16>();
  kernels.of_type.round_to = [](const float* x, std::int64_t count, Fp16* y) {
    cuda::kernel_tables().f16.round_to(x, count, y);
    y[count] = y[0];
  };
  BOOST_TEST(has(fault_of("round_to", kernels), "it writes past the end of y"));
  kernels.exchange.copy_pieces = [](const MemoryCopy* copies, int count) {
    std::vector<MemoryCopy> more(copies, copies + count);
    const MemoryCopy& row = copies[0];
    more.push_back({row.from, row.to + row.bytes, 2});
    cuda::kernel_tables().exchange.copy_pieces(more.data(), count + 1);
  };
  BOOST_TEST(has(fault_of("copy_pieces", kernels), "it writes between the rows of received"));
}

BOOST_AUTO_TEST_CASE(an_input_that_is_changed_is_found) {
  TriedKernels<float> kernels = kernels_of_plugin<float>();
  kernels.of_type.rms_norm_forward = [](const float* x, const float* weight, double eps, std::int64_t rows,
                                        std::int64_t channels, float* y, float* rstd) {
    cuda::kernel_tables().f32.rms_norm_forward(x, weight, eps, rows, channels, y, rstd);
    const_cast<float*>(weight)[channels - 1] = 0;
  };
  BOOST_TEST(has(fault_of("rms_norm_forward", kernels), "it changes weight, which it may only read"));
}

BOOST_AUTO_TEST_CASE(a_value_that_is_not_a_number_and_one_that_is_wrong_are_found) {
  TriedKernels<double> kernels = kernels_of_plugin<double>();
  kernels.of_type.embedding_backward = [](const double* dy, const std::int32_t* indices, std::int64_t rows,
                                          std::int64_t columns, std::int64_t entries, double beta, double* dtable) {
    cuda::kernel_tables().f64.embedding_backward(dy, indices, rows, columns, entries, beta, dtable);
    dtable[1] = std::numeric_limits<double>::quiet_NaN();
  };
  BOOST_TEST(has(fault_of("embedding_backward", kernels), "1 of 10087 values of dtable are NaN"));
  kernels.of_type.embedding_backward = [](const double* dy, const std::int32_t* indices, std::int64_t rows,
                                          std::int64_t columns, std::int64_t entries, double beta, double* dtable) {
    cuda::kernel_tables().f64.embedding_backward(dy, indices, rows - 4, columns, entries, beta, dtable);
  };
  BOOST_TEST(has(fault_of("embedding_backward", kernels), "the error of dtable is "));
}

BOOST_AUTO_TEST_SUITE_END()
