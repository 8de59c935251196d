// A matrix as a factor of a product.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Trans { no, yes };

/// As stored: rows of `stride` elements. Trans::yes: the product takes the transpose of what is stored.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t stride;
  Trans trans = Trans::no;
};

}  // namespace lockstep
