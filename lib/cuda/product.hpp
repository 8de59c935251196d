// A matrix product as a value: its shape, factors, base, bias and result, and its translation into the column-major
// terms of cublasLt, with the rules of cublasLt. Pure; includes no CUDA. Carried out by cuda/product_call.hpp.
#pragma once

#include "layout/dtype.hpp"
#include "tensor/kernels/matrix_view.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace lockstep::cuda {

/// Factor is a stored row-major matrix with rows of `stride` elements.
struct Factor {
  const void* data = nullptr;
  DType type = DType::f32;
  std::int64_t stride = 0;
  Trans trans = Trans::no;
  const float* scale = nullptr;  // on the device, multiplies all values; fp8 only
};

/// y (m, n) = alpha · op(a) (m, k) · op(b) (k, n) + beta · base (m, n) + bias (n). All matrices are row-major, and all
/// pointers are to memory of the device. Sums are in fp32, or in fp64 for fp64 factors.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Factor a, b;
  double alpha = 1, beta = 0;
  const void* factors = nullptr;  // alpha and beta on the device in the type of the sums, in place of the two above
  const void* base = nullptr;     // of base_type_of, rows of `base_stride`; may be y
  std::int64_t base_stride = 0;
  const void* bias = nullptr;
  DType bias_type = DType::f32;
  void* y = nullptr;
  DType type = DType::f32;
  std::int64_t stride = 0;
  const float* y_scale = nullptr;  // on the device, multiplies y before it is rounded; fp8 only
  float* maximum = nullptr;        // on the device, gets the largest |y| before rounding; fp8 only
};

/// The type of sums, alpha and beta.
DType sum_type(const Product& product);
/// The type that a base has: that of the result; bf16 for fp8 results.
DType base_type_of(const Product& product);
/// The type that a bias must have: that of the result, and for fp8 factors a 16-bit type.
DType bias_type_of(const Product& product);

/// ColumnMatrix is a column-major matrix with columns of `leading` elements.
struct ColumnMatrix {
  DType type = DType::f32;
  std::int64_t rows = 0, columns = 0, leading = 0;
  int alignment = 256;  // bytes: the largest power of two up to 256 that divides its address
  auto operator<=>(const ColumnMatrix&) const = default;
};

/// ColumnProduct is a product without its addresses, as d (n, m) = op(a) (n, k) · op(b) (k, m) + c (n, m) + bias (n),
/// column-major: a is the second factor of the row-major product and b the first one. Equal values have equal
/// algorithms.
struct ColumnProduct {
  ColumnMatrix a, b, c, d;
  Trans trans_a = Trans::no, trans_b = Trans::no;
  DType sums = DType::f32;
  DType bias = DType::f32;
  bool has_bias = false, has_base = false, has_scales = false, has_maximum = false, has_factors = false;
  bool may_round_to_tf32 = false;  // factors of fp32
  auto operator<=>(const ColumnProduct&) const = default;
};

/// Translates a product. Throws Error(bug) for one that cublasLt has no algorithm for: unequal types of factors, fp8
/// factors unless a is stored (m, k) and b (n, k), a bias of another type than bias_type_of, rows shorter than the
/// matrix, and a scale or maximum of other types than fp8. Local.
ColumnProduct column_major(const Product& product);

/// The product as words: "a bf16 1024 4096 1024 256 n b …". Equal values have equal texts.
std::string text_of(const ColumnProduct& product);
/// The inverse of text_of. Throws Error(input) for a text that is no product.
ColumnProduct product_of(const std::string& text);

}  // namespace lockstep::cuda
