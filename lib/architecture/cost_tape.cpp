#include "architecture/cost_tape.hpp"

#include <iterator>
#include <utility>

namespace lockstep {

std::vector<CountedTensor> CostTape::call(const FunctionCosts& costs, const Uses& uses) {
  std::vector<CountedTensor> results;
  const bool known = static_cast<bool>(uses.known);
  if (known) {
    results = {uses.known};
  } else {
    live_->play(costs.forward);
    std::int64_t read_by_backward = left_by(costs.forward);
    for (const std::int64_t bytes : costs.results) {
      results.push_back(owned(bytes));
      read_by_backward -= bytes;
    }
    if (!records()) live_->drop(read_by_backward);
    std::ranges::copy(costs.products, std::back_inserter(products));
    forward_flops += costs.forward_flops;
    backward_flops += costs.backward_flops;
  }
  std::ranges::copy(known ? costs.known_exchanges : costs.forward_exchanges, std::back_inserter(exchanges.forward));
  if (!records()) return results;
  std::vector<int> arguments;
  for (const CountedTensor& argument : uses.arguments) arguments.push_back(argument.id);
  deferred_bytes += costs.deferred_bytes;
  if (costs.defers_argument && deferred_.insert(arguments.front()).second)
    deferred_bytes += *uses.arguments.front().memory;
  nodes_.push_back({costs, std::move(arguments), uses.saved, uses.residual.id, results.front().id});
  return results;
}

void CostTape::backward(const CountedTensor& output) {
  give_gradient(output.id, uncounted());
  for (; !nodes_.empty(); nodes_.pop_back()) {
    const Node& node = nodes_.back();
    const CountedTensor dy = take_gradient(node.result);
    if (!dy) continue;
    const CountedTensor joined = node.costs.joins_gradients ? take_gradient(node.arguments.front()) : CountedTensor();
    live_->play(node.costs.backward);
    for (std::size_t i = 0; i < node.arguments.size(); ++i)
      give_gradient(node.arguments[i], owned(node.costs.gradients[i]));
    if (node.residual >= 0) give_gradient(node.residual, dy);
    std::ranges::copy(node.costs.backward_exchanges, std::back_inserter(exchanges.backward));
  }
}

}  // namespace lockstep
