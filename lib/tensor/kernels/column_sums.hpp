// Sums over rows, for the gradients of biases and norms. Blocks of rows do not depend on the number of threads, so
// neither do the bits.
#pragma once

#include "tensor/kernels/number.hpp"
#include "tensor/parallel.hpp"

#include <vector>

namespace lockstep {

/// Rows are summed in at most 64 blocks of at least 32 rows.
struct RowBlocks {
  std::int64_t rows;
  std::int64_t size() const { return std::max<std::int64_t>(32, (rows + 63) / 64); }
  std::int64_t count() const { return (rows + size() - 1) / size(); }
};

/// target = Σ over blocks of partials (blocks, columns) + β·target; β = 0 does not read the target.
template <class M>
void reduce_partials(const M* partials, std::int64_t blocks, std::int64_t columns, double beta, M* target);

/// target (columns) = Σ over rows of values (rows, columns; `stride` between rows) + β·target.
template <class T>
void column_sums(const T* values, std::int64_t rows, std::int64_t columns, std::int64_t stride, double beta,
                 Math<T>* target);

}  // namespace lockstep
