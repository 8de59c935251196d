// Muon (Jordan et al., 2024): the momentum of each matrix's gradient is orthogonalised before the weights are updated,
// so that all directions move equally. If matrices are sharded, one of the ranks owns each of them and does this:
// optim/matrix_exchange.hpp. Tensors that are no hidden matrices use another optimizer: optim/optimizer.hpp.
#pragma once

#include "optim/matrix_exchange.hpp"
#include "optim/optimizer.hpp"
#include "tensor/functions/kernel_table.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

namespace lockstep {

class Muon final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  /// With μ = muon_momentum: m ← m + (1 − μ)(g − m). The direction is g + μ(m − g) with Nesterov momentum, else m. The
  /// weight becomes w(1 − lr·decay) − lr·f·orthogonal(direction), where f is √max(1, out/in), or 0.2·√max(out, in) to
  /// match the steps of AdamW. Each matrix of a stack is updated by itself. Products are in bf16 if the model computes
  /// in 16 bits. Collective over the unit's sharers.
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;

 private:
  template <class M>
  void update_matrices(const Kernels<M>& on, Unit& unit, double lr, double gradient_scale) const;
  template <class M>
  void lead(const Kernels<M>& on, Unit& unit, const Parameter& parameter, double gradient_scale, M* directions) const;
  template <class M>
  void make_orthogonal(const Kernels<M>& on, const Unit& unit, M* matrices, const std::vector<Shape>& shapes) const;
  template <class M>
  void follow(const Kernels<M>& on, Unit& unit, const Parameter& parameter, double lr, const M* directions) const;
  const MatrixExchange& exchange_of(const Unit& unit) const;
  mutable at::Tensor directions_;  // of the matrices in progress
  mutable std::map<const Unit*, MatrixExchange> exchanges_;
};

/// Whether Muon can update the tensor: a matrix, or a stack of matrices.
bool is_matrix(const LogicalTensor& tensor);
/// Whether it is a matrix between hidden states: no embedding, no head, no router or other gate of experts.
bool is_hidden_matrix(const LogicalTensor& tensor);

}  // namespace lockstep
