// Comparison of calls with their descriptions (architecture/function_costs.hpp): a debug build compares the tensor
// memory of each forward and backward, so that the plan of a block's memory describes what the block does. A test may
// turn it on in any build.
#pragma once

#include "architecture/function_costs.hpp"
#include "tensor/block_lane.hpp"
#include "tensor/live_memory.hpp"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace lockstep {

/// Turns the comparison on or off. set_up_runtime (tensor/runtime.hpp), whose allocator counts tensors, turns it on in
/// debug builds. Not while functions run.
void compare_calls(bool wanted);
bool compares_calls();

/// The description of one pass, as far as it is compared: bytes at most, and bytes that it leaves; at_most: it may have
/// less.
struct DescribedPass {
  std::int64_t most = 0, left = 0;
  bool at_most = false;
};
/// Throw Error(bug) if the memory of a pass, with some allowance for small tensors, is not that of the description.
void compare_forward(std::string_view function, const DescribedPass& described, const TensorWatch& seen);
void compare_backward(std::string_view function, const DescribedPass& described, const TensorWatch& seen);

/// The rows of a call on tensors: `rows` in all, shared by the ranks of `lane`; nullptr: this rank has all.
CallRows call_rows(std::int64_t rows, at::ScalarType compute, const BlockLane* lane = nullptr);
/// The costs of a call; with a defined `known` result its forward allocates nothing.
FunctionCosts unless_known(FunctionCosts costs, const at::Tensor& known);

/// An autograd function whose calls are compared. F has a name, forward and backward as torch::autograd::Function wants
/// them, and costs(arguments of forward), which gives no results for a call that is not described.
template <class F>
struct CheckedFunction : torch::autograd::Function<CheckedFunction<F>> {
  using Context = torch::autograd::AutogradContext;

  template <class... Arguments>
  static auto forward(Context* context, Arguments&&... arguments)
      -> decltype(F::forward(context, std::forward<Arguments>(arguments)...)) {
    if (!compares_calls()) return F::forward(context, std::forward<Arguments>(arguments)...);
    const FunctionCosts costs = F::costs(arguments...);
    if (costs.results.empty()) return F::forward(context, std::forward<Arguments>(arguments)...);
    const TensorWatch watch;
    auto result = F::forward(context, std::forward<Arguments>(arguments)...);
    compare_forward(F::name, {most_of(costs.forward), left_by(costs.forward), costs.at_most}, watch);
    context->saved_data["most"] = most_of(costs.backward);
    context->saved_data["at_most"] = costs.at_most;
    return result;
  }
  static torch::autograd::variable_list backward(Context* context, torch::autograd::variable_list gradients) {
    const auto most = context->saved_data.find("most");
    if (most == context->saved_data.end()) return F::backward(context, std::move(gradients));
    const DescribedPass described{.most = most->second.toInt(), .at_most = context->saved_data["at_most"].toBool()};
    const TensorWatch watch;
    auto made = F::backward(context, std::move(gradients));
    compare_backward(F::name, described, watch);
    return made;
  }
};

}  // namespace lockstep
