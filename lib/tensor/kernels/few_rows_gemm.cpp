#include "tensor/kernels/few_rows_gemm.hpp"

#include "base/rounding.hpp"
#include "tensor/kernels/bias.hpp"
#include "tensor/kernels/row_grain.hpp"
#include "tensor/kernels/scratch.hpp"
#include "tensor/kernels/wide.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <type_traits>

namespace lockstep {

namespace {

constexpr std::int64_t most_rows = 8;
constexpr std::int64_t most_left = std::int64_t{1} << 17;  // elements of op(a): half a megabyte in fp32
constexpr std::int64_t unit = 32;                          // columns; threads divide the result in these
constexpr std::int64_t widest = 1024;                      // columns whose sums are in the first-level cache at once
constexpr std::int64_t rows_ahead = 4;                     // distance of prefetches, in stored rows of the right factor
constexpr std::int64_t group = 4;                          // stored rows of it that the portable loops read at once
constexpr std::int64_t longest = 1024;                     // elements of a row that the portable loops widen at once

/// op(a) in fp32: m rows of k values, `stride` between them.
struct Left {
  const float* first;
  std::int64_t stride;
};

/// Sums of all rows and of some columns of the result, `widest` values between rows. Unused columns may have any value.
using Sums = float[most_rows * widest];

/// The part of a stored right factor that some sums need.
template <class T>
struct Right {
  const T* first;
  std::int64_t stride;
  std::int64_t depth;    // rows of op(b)
  std::int64_t columns;  // at most `widest`
};

// ---- portable loops

/// The values of a row in fp32: in place, or in `wide`. A row that is widened prefetches the row that begins `ahead`
/// elements later, because the processor reads no memory ahead while it computes sums from `wide`.
LOCKSTEP_INLINE const float* widened(const float* row, std::int64_t, std::int64_t, float*) { return row; }
template <class T>
LOCKSTEP_INLINE const float* widened(const T* row, std::int64_t count, std::int64_t ahead, float* wide) {
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < count; i += line) __builtin_prefetch(row + ahead + i);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) wide[i] = load(row[i]);
  return wide;
}

/// sums = left · right, for a right factor that is stored as op(b).
template <class T>
LOCKSTEP_CLONES void sum_rows(std::int64_t m, const Left& left, const Right<T>& right, float* sums) {
  alignas(64) float wide[group][widest];
  for (std::int64_t r = 0; r < m; ++r) std::fill_n(sums + r * widest, right.columns, 0.0f);
  std::int64_t l = 0;
  for (; l + group <= right.depth; l += group) {
    const T* const first = right.first + l * right.stride;
    const std::int64_t ahead = rows_ahead * right.stride;
    const float* const w0 = widened(first, right.columns, ahead, wide[0]);
    const float* const w1 = widened(first + right.stride, right.columns, ahead, wide[1]);
    const float* const w2 = widened(first + 2 * right.stride, right.columns, ahead, wide[2]);
    const float* const w3 = widened(first + 3 * right.stride, right.columns, ahead, wide[3]);
    for (std::int64_t r = 0; r < m; ++r) {
      const float* const x = left.first + r * left.stride + l;
      const float x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
      float* const sum = sums + r * widest;
#pragma omp simd
      for (std::int64_t c = 0; c < right.columns; ++c)
        sum[c] = sum[c] + x0 * w0[c] + x1 * w1[c] + x2 * w2[c] + x3 * w3[c];
    }
  }
  for (; l < right.depth; ++l) {
    const float* const w = widened(right.first + l * right.stride, right.columns, rows_ahead * right.stride, wide[0]);
    for (std::int64_t r = 0; r < m; ++r) {
      const float x = left.first[r * left.stride + l];
      float* const sum = sums + r * widest;
#pragma omp simd
      for (std::int64_t c = 0; c < right.columns; ++c) sum[c] += x * w[c];
    }
  }
}

/// sums = left · right, for a right factor that is stored as the transpose of op(b).
template <class T>
LOCKSTEP_CLONES void sum_dots(std::int64_t m, const Left& left, const Right<T>& right, float* sums) {
  alignas(64) float wide[group][longest];
  for (std::int64_t column = 0; column < right.columns; column += group) {
    const std::int64_t count = std::min(group, right.columns - column);
    for (std::int64_t begin = 0; begin < right.depth; begin += longest) {
      const std::int64_t length = std::min(longest, right.depth - begin);
      const float* rows[group];  // The last row takes the place of those beyond it: one loop sums all columns.
      for (std::int64_t i = 0; i < group; ++i) {
        const T* const row = right.first + (column + std::min(i, count - 1)) * right.stride + begin;
        rows[i] = widened(row, length, rows_ahead * right.stride, wide[i]);
      }
      const float *const w0 = rows[0], *const w1 = rows[1], *const w2 = rows[2], *const w3 = rows[3];
      for (std::int64_t r = 0; r < m; ++r) {
        const float* const x = left.first + r * left.stride + begin;
        float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)
        for (std::int64_t i = 0; i < length; ++i) {
          sum0 += x[i] * w0[i];
          sum1 += x[i] * w1[i];
          sum2 += x[i] * w2[i];
          sum3 += x[i] * w3[i];
        }
        const float found[group] = {sum0, sum1, sum2, sum3};
        float* const sum = sums + r * widest + column;
        for (std::int64_t i = 0; i < count; ++i) sum[i] = begin == 0 ? found[i] : sum[i] + found[i];
      }
    }
  }
}

// ---- with AVX-512

#ifdef LOCKSTEP_INTRINSICS

/// Stored rows of the right factor that are read at once. With more than 4 rows on the left, registers suffice for two.
template <int rows>
constexpr int wide_group = rows > 4 ? 2 : 4;

/// sums += `rows` rows of left · `steps` rows of right.
template <int rows, int steps, class T>
LOCKSTEP_WIDE LOCKSTEP_INLINE void add_rows_wide(const Left& left, const Right<T>& right, std::int64_t l, float* sums) {
  __m512 x[rows][steps];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int s = 0; s < steps; ++s) x[r][s] = _mm512_set1_ps(left.first[r * left.stride + l + s]);
  }
  const T* const first = right.first + l * right.stride;
  for (std::int64_t c = 0; c < right.columns; c += wide_lanes) {
    const __mmask16 lanes = lanes_of(right.columns - c);
    __m512 w[steps];
#pragma GCC unroll 4
    for (int s = 0; s < steps; ++s) {
      const T* const from = first + s * right.stride + c;
      w[s] = load_wide(from, lanes);
      __builtin_prefetch(from + rows_ahead * right.stride);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      __m512 sum = _mm512_load_ps(sums + r * widest + c);
#pragma GCC unroll 4
      for (int s = 0; s < steps; ++s) sum = _mm512_fmadd_ps(x[r][s], w[s], sum);
      _mm512_store_ps(sums + r * widest + c, sum);
    }
  }
}

template <int rows, class T>
LOCKSTEP_WIDE void sum_rows_wide(const Left& left, const Right<T>& right, float* sums) {
  constexpr int steps = wide_group<rows>;
  for (int r = 0; r < rows; ++r) std::fill_n(sums + r * widest, rounded_up(right.columns, wide_lanes), 0.0f);
  std::int64_t l = 0;
  for (; l + steps <= right.depth; l += steps) add_rows_wide<rows, steps>(left, right, l, sums);
  for (; l < right.depth; ++l) add_rows_wide<rows, 1>(left, right, l, sums);
}

template <int rows, class T>
LOCKSTEP_WIDE void sum_dots_wide(const Left& left, const Right<T>& right, float* sums) {
  constexpr int across = wide_group<rows>;
  for (std::int64_t column = 0; column < right.columns; column += across) {
    const std::int64_t count = std::min<std::int64_t>(across, right.columns - column);
    const T* from[across];  // The last column takes the place of those beyond it.
    __m512 sum[rows][across];
#pragma GCC unroll 4
    for (int i = 0; i < across; ++i) {
      from[i] = right.first + (column + std::min<std::int64_t>(i, count - 1)) * right.stride;
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) sum[r][i] = _mm512_setzero_ps();
    }
    for (std::int64_t l = 0; l < right.depth; l += wide_lanes) {
      const __mmask16 lanes = lanes_of(right.depth - l);
      __m512 w[across];
#pragma GCC unroll 4
      for (int i = 0; i < across; ++i) {
        w[i] = load_wide(from[i] + l, lanes);
        __builtin_prefetch(from[i] + rows_ahead * right.stride + l);
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const __m512 x = load_wide(left.first + r * left.stride + l, lanes);
#pragma GCC unroll 4
        for (int i = 0; i < across; ++i) sum[r][i] = _mm512_fmadd_ps(x, w[i], sum[r][i]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < across; ++i) {
        const float total = _mm512_reduce_add_ps(sum[r][i]);
        if (i < count) sums[r * widest + column + i] = total;
      }
    }
  }
}

template <class T, int rows = 1>
void sum_part_wide(std::int64_t m, const Left& left, const Right<T>& right, Trans trans, float* sums) {
  if (m == rows)
    return trans == Trans::no ? sum_rows_wide<rows>(left, right, sums) : sum_dots_wide<rows>(left, right, sums);
  if constexpr (rows < most_rows) sum_part_wide<T, rows + 1>(m, left, right, trans, sums);
}

#endif

template <class T>
void sum_part(std::int64_t m, const Left& left, const Right<T>& right, Trans trans, Loops loops, float* sums) {
#ifdef LOCKSTEP_INTRINSICS
  if (loops == Loops::wide && is_wide()) return sum_part_wide<T>(m, left, right, trans, sums);
#else
  static_cast<void>(loops);
#endif
  return trans == Trans::no ? sum_rows<T>(m, left, right, sums) : sum_dots<T>(m, left, right, sums);
}

// ---- the product

/// op(a) in fp32: where it is, or a copy that the thread keeps until its next product.
template <class T>
Left left_factor(std::int64_t m, std::int64_t k, MatrixView<T> a) {
  if constexpr (std::is_same_v<T, float>) {
    if (a.trans == Trans::no) return {a.data, a.stride};
  }
  thread_local Scratch<float> memory;
  float* const rows = memory.upto(m * k);
  if constexpr (!std::is_same_v<T, float>) {
    if (a.trans == Trans::no) {
      for (std::int64_t r = 0; r < m; ++r) widen_row(a.data + r * a.stride, k, rows + r * k);
      return {rows, k};
    }
  }
  for (std::int64_t l = 0; l < k; ++l)
    for (std::int64_t r = 0; r < m; ++r) rows[r * k + l] = load(a.data[l * a.stride + r]);
  return {rows, k};
}

/// Calls finish(first column, columns, sums) for parts of the result that cover it.
template <class T, class Finish>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, Loops loops,
              const Finish& finish) {
  constexpr std::int64_t worth_another = std::int64_t{1} << 16;  // elements of the right factor
  const Left left = left_factor(m, k, a);
  parallel_for(ceil_div(n, unit), row_grain(unit * k, worth_another), [&](std::int64_t begin, std::int64_t end) {
    alignas(64) Sums sums;
    const std::int64_t stop = std::min(n, end * unit);
    for (std::int64_t column = begin * unit; column < stop; column += widest) {
      const std::int64_t columns = std::min(widest, stop - column);
      const T* const first = b.data + column * (b.trans == Trans::no ? 1 : b.stride);
      sum_part<T>(m, left, {first, b.stride, k, columns}, b.trans, loops, sums);
      finish(column, columns, sums);
    }
  });
}

/// y = alpha · sums + beta · base + bias, for some columns.
template <class T>
LOCKSTEP_CLONES void add_sums(std::int64_t m, std::int64_t column, std::int64_t columns, const float* sums,
                              const ProductSum<T>& sum) {
  for (std::int64_t r = 0; r < m; ++r) {
    const float* const product = sums + r * widest;
    const float* const base = sum.base ? sum.base + r * sum.stride + column : nullptr;
    const T* const bias = sum.bias ? sum.bias + column : nullptr;
    float* const y = sum.y + r * sum.stride + column;
    if (base == nullptr && bias == nullptr) {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) y[c] = sum.alpha * product[c];
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) {
        const float value = sum.alpha * product[c] + (bias ? load(bias[c]) : 0.0f);
        y[c] = base ? sum.beta * base[c] + value : value;
      }
    }
  }
}

}  // namespace

bool has_few_rows(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m > 0 && n > 0 && k > 0 && m <= most_rows && m * k <= most_left;
}

template <class T>
void few_rows_gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                   const ProductSum<T>& sum, Loops loops) {
  multiply<T>(m, n, k, a, b, loops, [&](std::int64_t column, std::int64_t columns, const float* sums) {
    add_sums<T>(m, column, columns, sums, sum);
  });
}

template <class T>
void few_rows_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                           const T* bias, T* y, std::int64_t y_stride, Loops loops) {
  multiply<T>(m, n, k, a, b, loops, [&](std::int64_t column, std::int64_t columns, const float* sums) {
    finish_product<T>(sums, widest, bias ? bias + column : nullptr, m, columns, y + column, y_stride);
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                          \
  template void few_rows_gemm<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, \
                                 const ProductSum<T>&, Loops);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE
#define LOCKSTEP_INSTANTIATE(T)                                                                                  \
  template void few_rows_gemm_rounded<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, \
                                         const T*, T*, std::int64_t, Loops);
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
