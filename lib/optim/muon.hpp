// Muon (Jordan et al., 2024): of each matrix the momentum of its gradient is made orthogonal before the weights follow
// it, so that all directions move alike. Each rank has whole matrices. What is no hidden matrix has another optimizer:
// optim/optimizer.hpp.
#pragma once

#include "optim/optimizer.hpp"
#include "optim/orthogonalise.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

class Muon final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  /// With μ = muon_momentum: m ← m + (1 − μ)(g − m), the direction is g + μ(m − g) with Nesterov's momentum, else m,
  /// and the weight becomes w(1 − lr·decay) − lr·f·orthogonal(direction), where f is √max(1, out/in), or
  /// 0.2·√max(out, in) to match the steps of AdamW. Of a stack each matrix goes by itself. Products are in bf16 where
  /// the model computes in 16 bits.
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;

 private:
  template <class M, class S>
  void update_matrices(Unit& unit, double lr, double gradient_scale) const;
  mutable Orthogonaliser orthogonaliser_;
  mutable std::vector<float> directions_;  // of the parameter that is in work
  mutable std::vector<double> wide_directions_;
};

/// A matrix, or a stack of some: what Muon may update.
bool is_matrix(const LogicalTensor& tensor);
/// A matrix between hidden states: no embedding, no head, no gate that chooses experts.
bool is_hidden_matrix(const LogicalTensor& tensor);
/// Rows and columns of a matrix as stored: of one of a stack.
Shape matrix_shape(const LogicalTensor& tensor);

}  // namespace lockstep
