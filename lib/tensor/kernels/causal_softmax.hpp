// Soft-max over rows of scores that see the keys up to themselves, or the last of these within a window, and its
// derivative: what lies between the products of attention. Plain functions of one thread.
#pragma once

#include "tensor/kernels/causal_products.hpp"
#include "tensor/kernels/number.hpp"

namespace lockstep {

/// Rows of a tile, `stride` elements apart: row r sees the last `window` of its elements [0, first + r], as far as they
/// are among `width`, the others are hidden.
struct CausalRows {
  std::int64_t first, rows, width, stride, window = all_keys;
};

/// Scores become e^(score − largest) where they are seen and 0 where hidden; the sums' inverses and the logarithms of
/// the soft-max sums (`log_stride` apart) are kept: 0 and −∞ for a row that sees nothing.
template <class M>
void causal_softmax(const CausalRows& tile, M* scores, M* inverse_sums, M* log_sums, std::int64_t log_stride);

/// Turns scores into probabilities p and dp (the gradient of p) into the gradient of the scores, p·(dp − Σ p·dp), 0 for
/// hidden keys. Where a row sees other keys elsewhere, `products` (log_stride apart) are Σ p·dp over all of them.
template <class M>
void causal_softmax_backward(const CausalRows& tile, M* scores, M* dp, const M* log_sums, std::int64_t log_stride,
                             const M* products = nullptr);

}  // namespace lockstep
