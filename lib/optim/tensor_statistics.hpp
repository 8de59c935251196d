// Statistics of weights or gradients by tensor. Each rank takes those of its share of what it holds, such that each
// element of a tensor counts once over all ranks; then ranks put them together. When a run does so:
// train/run_statistics.hpp.
#pragma once

#include "architecture/architecture.hpp"
#include "base/statistics.hpp"
#include "comm/communicator.hpp"
#include "model/model.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class TensorStatistics {
 public:
  /// Of no elements so far; of these tensors in this order, the same on all ranks.
  explicit TensorStatistics(const std::vector<LogicalTensor>& tensors);

  /// Takes in share `part` of `parts` of the values that this rank holds of the tensor. Local.
  void add(const std::string& tensor, const at::Tensor& held, std::int64_t part, std::int64_t parts);
  /// Of values `factor` times as large. Local.
  void scale(double factor);
  /// From now on those of all ranks together: the same bits on each. Collective over `world`.
  void sum_over(Communicator& world);

  const std::vector<std::pair<std::string, Statistics>>& tensors() const { return tensors_; }  // by name
  Statistics whole() const;  // of all tensors together

 private:
  std::vector<std::pair<std::string, Statistics>> tensors_;
  std::map<std::string, std::size_t> places_;
};

/// Takes in share `part` of `parts` of the unit's reduced gradient. Local; the gradient must be finished.
void add_gradient(TensorStatistics& statistics, const Unit& unit, int part, int parts);
/// Takes in the weights that this rank holds; those that several ranks hold alike these share out. Local.
void add_weights(TensorStatistics& statistics, const Model& model, Rank rank);

}  // namespace lockstep
