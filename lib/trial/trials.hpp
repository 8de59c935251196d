// The list of trials: one for each entry of the kernel table, and for each kernel of exchanges. A trial describes calls
// of its entry; trial/errors.hpp compares them with their reference, trial/speed.hpp times them.
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
  /// The cases of a configuration for a tested type, by their sizes.
  std::function<std::vector<TrialSizes>(const TrialSizes& sizes, Number tested)> cases;
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
std::vector<Trial> exchange_trials();

/// The cases of a trial with one case, or with variants 0 to count − 1.
template <int count>
std::vector<TrialSizes> variants(const TrialSizes& sizes) {
  std::vector<TrialSizes> cases(count, sizes);
  for (int variant = 0; variant < count; ++variant) cases[static_cast<std::size_t>(variant)].variant = variant;
  return cases;
}

using Cases = std::vector<TrialSizes> (*)(const TrialSizes&);
using CasesOfType = std::vector<TrialSizes> (*)(const TrialSizes&, Number tested);

template <class Describe>
Trial make_trial(std::string_view kernel, const Describe& describe, CasesOfType cases) {
  return {kernel, cases, describe, describe, describe, describe};
}
template <class Describe>
Trial make_trial(std::string_view kernel, const Describe& describe, Cases cases = variants<1>) {
  const auto of_each_type = [cases](const TrialSizes& sizes, Number) { return cases(sizes); };
  return {kernel, of_each_type, describe, describe, describe, describe};
}

/// The variant of a call whose output is in the place of an input.
inline constexpr int in_place = 1;
/// The cases of a kernel that is also called in place where the storage type is that of sums: variants 0 and in_place.
inline std::vector<TrialSizes> in_place_too(const TrialSizes& sizes, Number tested) {
  return math_of(tested) == tested ? variants<2>(sizes) : variants<1>(sizes);
}
/// The values that a kernel of those cases reads, in the type of sums, and where it writes.
template <class T>
struct ReadAndWritten {
  const Math<T>* from = nullptr;
  T* to = nullptr;
};
template <class T>
ReadAndWritten<T> read_and_written(KernelCall<T>& call, const TrialSizes& sizes, std::string_view from,
                                   std::string_view to, const Extent& extent, const Fill& fill = {}) {
  if constexpr (std::is_same_v<T, Math<T>>)
    if (sizes.variant == in_place) {
      call.facts.shape += " in place";
      T* const both = call.updated(wide, from, extent, fill);
      return {both, both};
    }
  return {call.in(wide, from, extent, fill), call.out(stored, to, extent)};
}

/// A trial with a case for each product.
template <class Describe>
Trial make_product_trial(std::string_view kernel, std::vector<ProductSize> (*products)(const TrialSizes&),
                         const Describe& describe) {
  Trial made = make_trial(kernel, describe);
  made.cases = [products](const TrialSizes& sizes, Number) {
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
