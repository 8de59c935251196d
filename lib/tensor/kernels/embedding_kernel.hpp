// Embedding lookup and its gradient: plain forward and backward.
#pragma once

#include "tensor/kernels/number.hpp"
#include "tensor/kernels/store_mode.hpp"

namespace lockstep {

/// own[i] = indices[i] − first, its row in a part of a table with `entries` rows from `first` on; −1 where the part
/// does not have it.
void indices_of_part(const std::int32_t* indices, std::int64_t count, std::int32_t first, std::int32_t entries,
                     std::int32_t* own);

/// y (rows, channels) = table[indices[r]], or 0 if the index is negative; with StoreMode::add it is added to y. Other
/// indices must be inside the table.
template <class T>
void embedding_forward(const T* table, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                       StoreMode mode, Math<T>* y);

/// dtable (entries, channels) = Σ over rows r with indices[r] = entry of dy[r], in order of r, + β·dtable; β = 0 does
/// not read it.
template <class M>
void embedding_backward(const M* dy, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                        std::int64_t entries, double beta, M* dtable);

}  // namespace lockstep
