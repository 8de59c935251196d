#include "tensor/functions/checked_function.hpp"

#include "base/error.hpp"
#include "tensor/number_types.hpp"

namespace lockstep {

namespace {

bool compares = false;

void compare(std::string_view function, std::string_view what, const DescribedPass& of, std::int64_t described,
             std::int64_t counted) {
  // Numbers for each expert and the like, which no description counts, and sizes that malloc rounds up.
  const std::int64_t allowed = (std::int64_t{16} << 10) + described / 16;
  if (counted <= described + allowed && (of.at_most || counted >= described - allowed)) return;
  fail(ExitCode::bug, "invariant violated: {} {} {} bytes, and its description says {}", function, what, counted,
       described);
}

}  // namespace

void compare_calls(bool wanted) { compares = wanted; }
bool compares_calls() { return compares; }

void compare_forward(std::string_view function, const DescribedPass& described, const TensorWatch& seen) {
  compare(function, "has at most, in forward,", described, described.most, seen.most());
  compare(function, "leaves for its caller and for backward", described, described.left, seen.now());
}

void compare_backward(std::string_view function, const DescribedPass& described, const TensorWatch& seen) {
  compare(function, "has at most, in backward,", described, described.most, seen.most());
}

CallRows call_rows(std::int64_t rows, at::ScalarType compute, const BlockLane* lane) {
  return {rows, dtype_of(compute), {.ranks = lane ? lane->ranks() : 1, .rows = shares_rows(lane)}};
}

FunctionCosts unless_known(FunctionCosts costs, const at::Tensor& known) {
  if (known.defined()) costs.forward.clear();
  return costs;
}

}  // namespace lockstep
