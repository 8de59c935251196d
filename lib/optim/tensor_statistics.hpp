// Statistics of weights or gradients by tensor. Each rank adds its share of the elements that it holds, so that each
// element counts once over all ranks; then the ranks combine them. When a run does this: train/run_statistics.hpp.
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
  /// Starts with no elements, for these tensors in this order; it must be the same on all ranks.
  explicit TensorStatistics(const std::vector<LogicalTensor>& tensors);

  /// Adds share `part` of `parts` of this rank's values of the tensor, on their device. Local.
  void add(const std::string& tensor, const at::Tensor& held, std::int64_t part, std::int64_t parts);
  /// Changes the statistics to those of values multiplied by `factor`. Local.
  void scale(double factor);
  /// Combines the statistics of all ranks; afterwards each rank has them, with the same bits. Collective over `world`.
  void sum_over(Communicator& world);

  const std::vector<std::pair<std::string, Statistics>>& tensors() const { return tensors_; }  // by name
  Statistics whole() const;                                                                    // all tensors together

 private:
  /// Reads the shares that were added, with one wait for the device.
  void collect();
  std::vector<std::pair<std::string, Statistics>> tensors_;
  at::Tensor measured_;  // on the device: a Statistics for each tensor
  bool is_measured_ = false;
  std::map<std::string, std::size_t> places_;
};

/// Adds share `part` of `parts` of the unit's reduced gradient. Local; the gradient must be finished.
void add_gradient(TensorStatistics& statistics, const Unit& unit, int part, int parts);
/// Adds the weights that this rank holds; replicas of the same weights add one share each. Local.
void add_weights(TensorStatistics& statistics, const Model& model, Rank rank);

}  // namespace lockstep
