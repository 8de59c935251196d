// Grouped matrix products for experts: each group of rows is multiplied with a matrix of its own. One call computes all
// groups; groups may be empty. Bits do not depend on the number of threads. Products with one matrix: tensor/gemm.hpp.
#pragma once

#include "tensor/gemm.hpp"

#include <cstdint>

namespace lockstep {

/// Group g has rows [offsets[g], offsets[g + 1]). offsets has count + 1 values, the first is 0.
struct RowGroups {
  const std::int64_t* offsets;
  std::int64_t count;
};

/// y (rows, n) = x (rows, k) · op(w_g) with the matrix of each row's group, rounded to T once. The matrices are stored
/// back to back; w_g is stored as (k, n), or, with Trans::yes, as (n, k).
template <class T>
void grouped_gemm_rounded(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* x, const T* weights,
                          Trans trans, T* y);

/// dw_g (n, k) = Σ over the rows of group g of dyᵀ · x + beta · dw_g, for dy (rows, n) and x (rows, k).
template <class T>
void grouped_weight_gemm(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* dy, const T* x, double beta,
                         Math<T>* dweights);

}  // namespace lockstep
