// A matrix as a factor of a product, and the operations on a finished product.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Trans { no, yes };

/// A stored matrix with rows of `stride` elements. Trans::yes: the product uses its transpose.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t stride;
  Trans trans = Trans::no;
};

/// y (m, n) fp32 = alpha · product + beta · base (m, n) + bias (n). `base` may be y, or nullptr for none; `bias` may be
/// nullptr.
template <class T>
struct ProductSum {
  float alpha = 1, beta = 0;
  const float* base = nullptr;  // rows of `stride`, as y
  const T* bias = nullptr;
  float* y = nullptr;
  std::int64_t stride = 0;
};

}  // namespace lockstep
