// Exchange of matrices that are sharded over ranks, for optimizers that need whole matrices (Muon). Each matrix has an
// owner (layout/matrix_owners.hpp): it gathers all parts, works on the whole matrix, and returns the parts.
#pragma once

#include "layout/shape.hpp"
#include "tensor/block_lane.hpp"
#include "tensor/unit.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

class MatrixExchange {
 public:
  /// Plans the exchange for the parameters of `unit`, which are matrices or stacks of matrices. Local; all ranks of the
  /// lane compute the same plan.
  MatrixExchange(const Unit& unit, const BlockLane& lane);

  /// Returns the matrices that this rank owns, each row-major, back to back; their (rows, cols) are owned(). `parts`
  /// has the layout of the unit's buffers, (length()) fp32 or fp64. Collective over the lane.
  at::Tensor to_owners(const at::Tensor& parts) const;
  /// The inverse: writes the owners' results into `parts`. Collective over the lane.
  void back(const at::Tensor& matrices, const at::Tensor& parts) const;
  const std::vector<Shape>& owned() const { return owned_; }

 private:
  struct Stretch {
    std::int64_t first = 0, length = 0;
  };
  const BlockLane* lane_;
  std::vector<Shape> owned_;
  std::int64_t owned_elements_ = 0;
  // parts_: stretches of the unit's buffers, by owner. wholes_: stretches of owned matrices, by holder of the part.
  std::vector<Stretch> parts_, wholes_;
  std::vector<std::int64_t> sent_, received_;  // elements, by rank of the lane
};

}  // namespace lockstep
