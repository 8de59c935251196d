// Softmax over rows of causal attention scores, optionally within a sliding window, and its derivative: the step
// between the products of attention. Plain functions of one thread.
#pragma once

#include "tensor/kernels/causal_products.hpp"
#include "tensor/kernels/number.hpp"

namespace lockstep {

/// Rows of a tile, `stride` elements apart. Row r attends to the last `window` of its elements [0, first + r] that lie
/// within `width`; the others are hidden.
struct CausalRows {
  std::int64_t first, rows, width, stride, window = all_keys;
};

/// Replaces scores by e^(score − largest), and by 0 where hidden. Stores the inverses of the sums and the logarithms of
/// the softmax sums (`log_stride` apart): 0 and −∞ for a row without visible keys.
template <class M>
void causal_softmax(const CausalRows& tile, M* scores, M* inverse_sums, M* log_sums, std::int64_t log_stride);

/// Replaces scores by probabilities p, and dp (the gradient of p) by the gradient of the scores, p·(dp − Σ p·dp), 0 for
/// hidden keys. If a row attends to other keys elsewhere (ring attention), `products` (log_stride apart) are Σ p·dp
/// over all of its keys.
template <class M>
void causal_softmax_backward(const CausalRows& tile, M* scores, M* dp, const M* log_sums, std::int64_t log_stride,
                             const M* products = nullptr);

}  // namespace lockstep
