// Products of causal attention with AVX-512, on the calling thread. A tile of queries [first, first + rows) attends to
// keys up to each query's own, the last `window` of them, among `keys`. Keys that are hidden from a group of eight
// queries are not multiplied. Called from tensor/kernels/attention_kernel.cpp, which also has the portable form.
#pragma once

#include "architecture/attention_scratch.hpp"

#include <cstdint>

namespace lockstep {

/// True if this processor has the instructions and heads of this size fill vectors. The functions below need both.
bool has_causal_products(std::int64_t head_size);

constexpr std::int64_t all_keys = std::int64_t{1} << 62;  // window value: no window
/// Number of keys before the window of query `place`.
constexpr std::int64_t hidden_keys(std::int64_t place, std::int64_t window) {
  return place < window ? 0 : place + 1 - window;
}

struct CausalTile {
  std::int64_t first, rows;
  std::int64_t head_size;     // D
  std::int64_t score_stride;  // between rows of scores: a multiple of 16, at least width()
  std::int64_t window = all_keys;
  std::int64_t keys = all_keys;
  std::int64_t width() const { return first + rows < keys ? first + rows : keys; }
};

/// turned (turned_elements, aligned) = the transpose of matrix (length, D), in the order that causal_scores reads.
void turn_rows(const float* matrix, std::int64_t length, std::int64_t head_size, float* turned);

/// scores (rows, stride) = x (rows, D) · matrixᵀ at visible positions; hidden ones hold arbitrary values.
void causal_scores(const CausalTile& tile, const float* x, const float* turned, float* scores);

/// y (rows, D) = p (rows, stride) · matrix (width, D). p is 0 at hidden positions.
void causal_combine(const CausalTile& tile, const float* p, const float* matrix, float* y);

/// y (width, D) += pᵀ · x for p (rows, stride), which is 0 at hidden positions, and x (rows, D).
void causal_spread(const CausalTile& tile, const float* p, const float* x, float* y);

}  // namespace lockstep
