// Biases and rounding, the steps around the matrix product of a linear layer. Plain functions.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// y (rows, columns; y_stride between rows) = product (rows, columns) + bias (columns, or nullptr). y may be the
/// product itself.
template <class T>
void finish_product(const Math<T>* product, std::int64_t product_stride, const T* bias, std::int64_t rows,
                    std::int64_t columns, T* y, std::int64_t y_stride);

/// y (rows, columns; y_stride between rows) = x (rows, columns) + bias (columns, or nullptr).
template <class T>
void add_bias(const Math<T>* x, std::int64_t x_stride, const T* bias, std::int64_t rows, std::int64_t columns,
              Math<T>* y, std::int64_t y_stride);

/// out = the `count` values of x, exactly.
template <class T>
void widen_row(const T* x, std::int64_t count, float* out);

/// y = x rounded to T.
template <class T>
void round_to(const Math<T>* x, std::int64_t count, T* y);

}  // namespace lockstep
