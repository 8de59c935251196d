// The list of trials: one for each entry of the kernel table. A trial describes calls of its entry; trial/errors.hpp
// compares them with their reference, trial/speed.hpp times them.
#pragma once

#include "trial/kernel_call.hpp"
#include "trial/trial_sizes.hpp"

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::trial {

/// Describes a call of an entry for the sizes and settings of one case.
template <class T>
using DescribeCall = std::function<void(KernelCall<T>& call, const TrialSizes& sizes)>;

struct Trial {
  std::string_view kernel;
  /// The cases of a configuration, by their sizes.
  std::function<std::vector<TrialSizes>(const TrialSizes&)> cases;
  DescribeCall<float> f32;
  DescribeCall<double> f64;
  DescribeCall<Bf16> bf16;
  DescribeCall<Fp16> f16;

  template <class T>
  const DescribeCall<T>& describe() const {
    if constexpr (std::is_same_v<T, float>)
      return f32;
    else if constexpr (std::is_same_v<T, double>)
      return f64;
    else if constexpr (std::is_same_v<T, Bf16>)
      return bf16;
    else
      return f16;
  }
};

/// All trials. `describe` of a trial is one generic function of all types.
const std::vector<Trial>& all_trials();
/// Throws Error(bug) if there is none.
const Trial& trial_of(std::string_view kernel);

/// The parts of the list.
std::vector<Trial> product_trials();
std::vector<Trial> block_trials();
std::vector<Trial> attention_trials();
std::vector<Trial> expert_trials();
std::vector<Trial> loss_trials();
std::vector<Trial> update_trials();

/// The cases of a trial with one case, or with variants 0 to count − 1.
template <int count>
std::vector<TrialSizes> variants(const TrialSizes& sizes) {
  std::vector<TrialSizes> cases(count, sizes);
  for (int variant = 0; variant < count; ++variant) cases[static_cast<std::size_t>(variant)].variant = variant;
  return cases;
}

using Cases = std::vector<TrialSizes> (*)(const TrialSizes&);

template <class Describe>
Trial make_trial(std::string_view kernel, const Describe& describe, Cases cases = variants<1>) {
  return {kernel, cases, describe, describe, describe, describe};
}

/// A trial with a case for each product.
template <class Describe>
Trial make_product_trial(std::string_view kernel, std::vector<ProductSize> (*products)(const TrialSizes&),
                         const Describe& describe) {
  Trial made = make_trial(kernel, describe);
  made.cases = [products](const TrialSizes& sizes) {
    std::vector<TrialSizes> cases;
    for (const ProductSize& product : products(sizes)) {
      cases.push_back(sizes);
      cases.back().product = product;
    }
    return cases;
  };
  return made;
}

}  // namespace lockstep::trial
