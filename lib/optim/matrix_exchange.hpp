// Among ranks that have parts of the matrices of a unit, each matrix has an owner (layout/matrix_owners.hpp), which
// gets all its parts, works on the whole, and gives the parts back.
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
  /// Of the unit's parameters, all matrices or stacks of such. Local; the same on all ranks of the lane.
  MatrixExchange(const Unit& unit, const BlockLane& lane);

  /// Matrices of this rank, each row-major, one behind the other; their (rows, cols) are owned(). `parts` lie as the
  /// unit's buffers do, (length()) fp32 or fp64. Collective over the lane.
  at::Tensor to_owners(const at::Tensor& parts) const;
  /// The opposite: writes into `parts` what owners made of them. Collective over the lane.
  void back(const at::Tensor& matrices, const at::Tensor& parts) const;
  const std::vector<Shape>& owned() const { return owned_; }

 private:
  struct Stretch {
    std::int64_t first = 0, length = 0;
  };
  const BlockLane* lane_;
  std::vector<Shape> owned_;
  std::int64_t owned_elements_ = 0;
  std::vector<Stretch> parts_, wholes_;        // of the unit's buffers, by owner; of matrices, by who has the part
  std::vector<std::int64_t> sent_, received_;  // elements, by rank of the lane
};

}  // namespace lockstep
