// Products of groups of rows, each with a matrix of its own: what experts compute. One call does all groups; they may
// be empty. Bits do not depend on the number of threads. Products of one matrix: tensor/gemm.hpp.
#pragma once

#include "tensor/gemm.hpp"

#include <cstdint>

namespace lockstep {

/// Rows [offsets[g], offsets[g + 1]) are of group g; offsets has count + 1 values, the first 0.
struct RowGroups {
  const std::int64_t* offsets;
  std::int64_t count;
};

/// y (rows, n) = x (rows, k) · op(w_g) of each row's group, rounded to T once. The matrices follow each other: w_g is
/// stored as (k, n), or, with Trans::yes, as (n, k).
template <class T>
void grouped_gemm_rounded(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* x, const T* weights,
                          Trans trans, T* y);

/// dw_g (n, k) = the sum of dy (rows, n) times x (rows, k) over the rows of group g + beta · dw_g.
template <class T>
void grouped_weight_gemm(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* dy, const T* x, double beta,
                         Math<T>* dweights);

}  // namespace lockstep
