// Muon (Jordan et al., 2024): of each matrix the momentum of its gradient is made orthogonal before the weights follow
// it, so that all directions move alike. Where ranks have parts of matrices, each matrix has an owner among them, which
// does that: optim/matrix_exchange.hpp. What is no hidden matrix has another optimizer: optim/optimizer.hpp.
#pragma once

#include "optim/matrix_exchange.hpp"
#include "optim/optimizer.hpp"
#include "optim/orthogonalise.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
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
  template <class M, class S>
  void lead(Unit& unit, const Parameter& parameter, double gradient_scale, M* directions) const;
  template <class M>
  void make_orthogonal(const Unit& unit, M* matrices, const std::vector<Shape>& shapes) const;
  template <class M>
  void follow(Unit& unit, const Parameter& parameter, double lr, const M* directions) const;
  const MatrixExchange& exchange_of(const Unit& unit) const;
  mutable Orthogonaliser orthogonaliser_;
  mutable at::Tensor directions_;  // of what is in work
  mutable std::map<const Unit*, MatrixExchange> exchanges_;
};

/// A matrix, or a stack of some: what Muon may update.
bool is_matrix(const LogicalTensor& tensor);
/// A matrix between hidden states: no embedding, no head, no gate that chooses experts.
bool is_hidden_matrix(const LogicalTensor& tensor);

}  // namespace lockstep
