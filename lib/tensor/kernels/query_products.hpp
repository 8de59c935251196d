// Products of a few queries with rows of keys or values as they are stored: each row is read once for several queries.
// Plain functions of one thread. Products of many queries: tensor/kernels/attention_tiles.hpp.
#pragma once

#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// `count` rows of `size` elements each, without gaps.
template <class T>
struct StoredRows {
  const T* first;
  std::int64_t count, size;
};

/// scores (queries, keys; rows `stride` apart) = x (queries, D) · keysᵀ.
template <class T>
void score_rows(const Math<T>* x, std::int64_t queries, const StoredRows<T>& keys, Math<T>* scores,
                std::int64_t stride);

/// sums (queries, D; rows `sum_stride` apart) += weights (queries, values; rows `stride` apart) · values.
template <class T>
void add_weighted_rows(const Math<T>* weights, std::int64_t stride, std::int64_t queries, const StoredRows<T>& values,
                       Math<T>* sums, std::int64_t sum_stride);

}  // namespace lockstep
