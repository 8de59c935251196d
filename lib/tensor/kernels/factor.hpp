// A matrix as a factor of a product.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Form { plain, transposed };

/// As stored: rows of `stride` elements. Form::transposed: the product takes the transpose of what is stored.
template <class T>
struct Factor {
  const T* data;
  std::int64_t stride;
  Form form = Form::plain;
};

}  // namespace lockstep
