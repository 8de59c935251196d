#include "tensor/gemm.hpp"

#include "base/checked_cast.hpp"
#include "tensor/kernels/amx_gemm.hpp"
#include "tensor/kernels/bias.hpp"
#include "tensor/kernels/few_rows_gemm.hpp"
#include "tensor/kernels/row_grain.hpp"
#include "tensor/kernels/vector_gemm.hpp"
#include "tensor/live_memory.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>
#include <vector>

// Exported by LibTorch's CPU library, which links MKL (x86) or another BLAS.
extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
            const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*,
            const double*, const int*, const double*, double*, const int*);
#ifdef LOCKSTEP_BF16_GEMM
void cblas_gemm_bf16bf16f32(int, int, int, int, int, int, float, const std::uint16_t*, int, const std::uint16_t*, int,
                            float, float*, int);
#endif
#ifdef LOCKSTEP_MKL
int MKL_Set_Num_Threads_Local(int);
#endif
}

namespace lockstep {

namespace {

int narrow(std::int64_t side) { return checked_cast<int>(side, "dimension of a matrix product", ExitCode::resources); }

/// True if there is nothing to multiply; c is then β·c.
template <class M>
bool trivial(std::int64_t m, std::int64_t n, std::int64_t k, double beta, M* c, std::int64_t c_stride) {
  if (m > 0 && n > 0 && k > 0) return false;
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      M& value = c[row * c_stride + column];
      value = beta == 0 ? M{0} : static_cast<M>(beta) * value;
    }
  }
  return true;
}

// A row-major product is the column-major product of the transposes in the other order.
template <class M, class Routine>
void column_major(Routine routine, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<M> a,
                  MatrixView<M> b, double beta, M* c, std::int64_t c_stride) {
  if (trivial(m, n, k, beta, c, c_stride)) return;
  const char form_a = a.trans == Trans::no ? 'N' : 'T', form_b = b.trans == Trans::no ? 'N' : 'T';
  const int rows = narrow(m), columns = narrow(n), depth = narrow(k);
  const int stride_a = narrow(a.stride), stride_b = narrow(b.stride), stride_c = narrow(c_stride);
  const M scale = static_cast<M>(alpha), keep = static_cast<M>(beta);
  routine(&form_b, &form_a, &columns, &rows, &depth, &scale, b.data, &stride_b, a.data, &stride_a, &keep, c, &stride_c);
}

// Packing costs more than it gains for small products of fp32.
template <class T>
bool on_matrix_unit(std::int64_t m, std::int64_t n, std::int64_t k) {
  if (m <= 0 || n <= 0 || k <= 0 || !uses_matrix_unit()) return false;
  if constexpr (std::is_same_v<T, float>) return std::min({m, n, k}) >= 64 && m * n * k >= std::int64_t{1} << 20;
  return std::is_same_v<T, Bf16>;
}

/// alpha · product + beta · c, as c.
template <class T>
ProductSum<T> sum_into(double alpha, double beta, float* c, std::int64_t c_stride) {
  const auto scale = static_cast<float>(alpha), keep = static_cast<float>(beta);
  return {.alpha = scale, .beta = keep, .base = beta == 0 ? nullptr : c, .bias = nullptr, .y = c, .stride = c_stride};
}

std::atomic<bool> matrix_unit_wanted{true}, vectors_wanted{true};

}  // namespace

void want_matrix_unit(bool wanted) { matrix_unit_wanted = wanted; }
bool uses_matrix_unit() { return matrix_unit_wanted && has_matrix_unit(); }
void enable_vectors(bool wanted) { vectors_wanted = wanted; }
bool uses_vectors() { return vectors_wanted && has_vector_gemm(); }

namespace {

void library_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<float> a,
                  MatrixView<float> b, double beta, float* c, std::int64_t c_stride) {
  column_major(sgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

void library_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a,
                  MatrixView<double> b, double beta, double* c, std::int64_t c_stride) {
  column_major(dgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

/// out = the elements of a factor (rows, columns) as fp32, stored in its own order without gaps.
template <class T>
void widen(MatrixView<T> factor, std::int64_t rows, std::int64_t columns, float* out) {
  if (factor.trans == Trans::yes) std::swap(rows, columns);
  parallel_for(rows, 64, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      widen_row(factor.data + row * factor.stride, columns, out + row * columns);
  });
}
MatrixView<float> widened_view(const float* values, Trans trans, std::int64_t rows, std::int64_t columns) {
  return {values, trans == Trans::no ? columns : rows, trans};
}

#ifdef LOCKSTEP_BF16_GEMM
void library_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Bf16> a, MatrixView<Bf16> b,
                  double beta, float* c, std::int64_t c_stride) {
  if (trivial(m, n, k, beta, c, c_stride)) return;
  constexpr int row_major = 101, plain = 111, transposed = 112;  // CBLAS
  cblas_gemm_bf16bf16f32(row_major, a.trans == Trans::no ? plain : transposed,
                         b.trans == Trans::no ? plain : transposed, narrow(m), narrow(n), narrow(k),
                         static_cast<float>(alpha), &a.data->bits, narrow(a.stride), &b.data->bits, narrow(b.stride),
                         static_cast<float>(beta), c, narrow(c_stride));
}
#else
void library_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Bf16> a, MatrixView<Bf16> b,
                  double beta, float* c, std::int64_t c_stride) {
  if (trivial(m, n, k, beta, c, c_stride)) return;
  // Widened copies: exact, and every BLAS has the fp32 product.
  const auto widened_whole = [](MatrixView<Bf16> factor, std::int64_t rows, std::int64_t columns) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    widen(factor, rows, columns, values.data());
    return values;
  };
  const std::vector<float> wide_a = widened_whole(a, m, k), wide_b = widened_whole(b, k, n);
  gemm(m, n, k, alpha, widened_view(wide_a.data(), a.trans, m, k), widened_view(wide_b.data(), b.trans, k, n), beta, c,
       c_stride);
}
#endif

/// Rows [row, row + rows) and columns [column, column + columns) of a result.
struct Part {
  std::int64_t row, rows, column, columns;
};

/// The result at the part's first element.
template <class M>
M* at(M* c, std::int64_t stride, const Part& part) {
  return c + part.row * stride + part.column;
}
template <class T>
MatrixView<T> rows_of(MatrixView<T> a, const Part& part) {
  return {a.data + part.row * (a.trans == Trans::no ? a.stride : 1), a.stride, a.trans};
}
template <class T>
MatrixView<T> columns_of(MatrixView<T> b, const Part& part) {
  return {b.data + part.column * (b.trans == Trans::no ? 1 : b.stride), b.stride, b.trans};
}

/// How a result is cut into parts: into rows, or into columns where there are far more, for each part packs the other
/// factor whole. Edges are those of the library's own blocks.
struct Cut {
  Cut(std::int64_t m, std::int64_t n, std::int64_t k)
      : by_columns(n > 2 * m),
        length(by_columns ? n : m),
        across(by_columns ? m : n),
        block(by_columns ? 48 : 8),
        blocks((length + block - 1) / block),
        grain(row_grain(block * across * k, std::int64_t{1} << 20)) {}
  Part part(std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = begin * block, count = std::min(length, end * block) - first;
    return by_columns ? Part{0, across, first, count} : Part{first, count, 0, across};
  }
  bool by_columns;
  std::int64_t length, across, block, blocks;
  std::int64_t grain;  // blocks that pay for waking a thread
};

/// Calls body(part) on parts that cover the result, one a thread.
template <class Body>
void share_out(std::int64_t m, std::int64_t n, std::int64_t k, const Body& body) {
  const Cut cut(m, n, k);
  parallel_for(cut.blocks, cut.grain, [&](std::int64_t begin, std::int64_t end) { body(cut.part(begin, end)); });
}

/// While it lives the BLAS takes no threads of its own for products of this one.
class OneThread {
 public:
  OneThread() = default;
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
#ifdef LOCKSTEP_MKL
  ~OneThread() { MKL_Set_Num_Threads_Local(before_); }

 private:
  int before_ = MKL_Set_Num_Threads_Local(1);
#endif
};

/// The same in parts that follow from the sizes alone: how a BLAS adds up may depend on the sizes that it is given.
template <class Body>
void share_out_alike(std::int64_t m, std::int64_t n, std::int64_t k, const Body& body) {
  constexpr std::int64_t most_parts = 16, least_length = 96;
  const Cut cut(m, n, k);
  const std::int64_t in_part =
      std::max({cut.grain, (cut.blocks + most_parts - 1) / most_parts, (least_length + cut.block - 1) / cut.block});
  parallel_for((cut.blocks + in_part - 1) / in_part, 1, [&](std::int64_t begin, std::int64_t end) {
    const OneThread alone;
    for (std::int64_t part = begin; part < end; ++part)
      body(cut.part(part * in_part, std::min(cut.blocks, (part + 1) * in_part)));
  });
}

/// c = alpha · op(a) · op(b) + beta · c by the library, with prepare(part) before and finish(part) after the product of
/// each part, while it is in its thread's cache. One thread takes a sum from its first term to its last, in parts that
/// are always the same: bits do not depend on the number of threads. Large products, for which the library's threads
/// pack every factor once, are left to it as a whole, and so is fp64, which checks the others.
template <class T, class Prepare, class Finish>
void library_product(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b,
                     double beta, Math<T>* c, std::int64_t c_stride, const Prepare& prepare, const Finish& finish) {
  const auto product = [&](const Part& part) {
    prepare(part);
    library_gemm(part.rows, part.columns, k, alpha, rows_of(a, part), columns_of(b, part), beta, at(c, c_stride, part),
                 c_stride);
    finish(part);
  };
#ifdef LOCKSTEP_BF16_GEMM
  constexpr bool shared = !std::is_same_v<T, double>;
#else
  constexpr bool shared = std::is_same_v<T, float>;  // bf16 factors are widened once, not by each thread
#endif
  if constexpr (shared) {
    constexpr std::int64_t largest = std::int64_t{1} << 27;
    if (m > 0 && n > 0 && k > 0 && m * n * k <= largest) return share_out_alike(m, n, k, product);
  }
  product({0, m, 0, n});
}

constexpr auto nothing = [](const Part&) {};

// Fewer rows would leave vectors empty.
template <class T>
bool on_vectors(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t least_rows = 8;
  return !std::is_same_v<T, double> && m >= least_rows && n > 0 && k > 0 && uses_vectors();
}

template <class T>
void vector_product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                    const ProductSum<T>& sum) {
  share_out(m, n, k, [&](const Part& part) {
    ProductSum<T> own = sum;
    own.y = at(sum.y, sum.stride, part);
    if (sum.base) own.base = at(sum.base, sum.stride, part);
    if (sum.bias) own.bias = sum.bias + part.column;
    vector_gemm<T>(part.rows, part.columns, k, rows_of(a, part), columns_of(b, part), own);
  });
}

Loops few_rows_loops() { return vectors_wanted ? Loops::wide : Loops::portable; }

/// What `sum` says, if this processor has a better way than the BLAS; else false, and nothing is done.
template <class T>
bool own_product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                 const ProductSum<T>& sum) {
  if (has_few_rows(m, n, k)) {
    few_rows_gemm<T>(m, n, k, a, b, sum, few_rows_loops());
    return true;
  }
  if (on_matrix_unit<T>(m, n, k)) {
    amx_gemm<T>(m, n, k, a, b, sum);
    return true;
  }
  if (!on_vectors<T>(m, n, k)) return false;
  vector_product<T>(m, n, k, a, b, sum);
  return true;
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<float> a, MatrixView<float> b,
          double beta, float* c, std::int64_t c_stride) {
  if (own_product<float>(m, n, k, a, b, sum_into<float>(alpha, beta, c, c_stride))) return;
  library_product(m, n, k, alpha, a, b, beta, c, c_stride, nothing, nothing);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a, MatrixView<double> b,
          double beta, double* c, std::int64_t c_stride) {
  library_product(m, n, k, alpha, a, b, beta, c, c_stride, nothing, nothing);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Bf16> a, MatrixView<Bf16> b,
          double beta, float* c, std::int64_t c_stride) {
  if (own_product<Bf16>(m, n, k, a, b, sum_into<Bf16>(alpha, beta, c, c_stride))) return;
  library_product(m, n, k, alpha, a, b, beta, c, c_stride, nothing, nothing);
}

namespace {

/// Memory of a thread for gemm of fp16, kept from product to product.
struct WidenedParts {
  ScratchVector<float> a = ScratchVector<float>(widened_side * widened_depth),
                       b = ScratchVector<float>(widened_side * widened_depth),
                       sums = ScratchVector<float>(widened_side * widened_side);
};
WidenedParts& widened_parts() {
  thread_local WidenedParts parts;
  return parts;
}

/// Calls body(part) on parts that cover the result, one after the other, whose sides are at most widened_side.
template <class Body>
void for_each_part(std::int64_t m, std::int64_t n, const Body& body) {
  for (std::int64_t row = 0; row < m; row += widened_side)
    for (std::int64_t column = 0; column < n; column += widened_side)
      body(Part{row, std::min(widened_side, m - row), column, std::min(widened_side, n - column)});
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Fp16> a, MatrixView<Fp16> b,
          double beta, float* c, std::int64_t c_stride) {
  if (has_few_rows(m, n, k))
    return few_rows_gemm<Fp16>(m, n, k, a, b, sum_into<Fp16>(alpha, beta, c, c_stride), few_rows_loops());
  if (trivial(m, n, k, beta, c, c_stride)) return;
  WidenedParts& wide = widened_parts();
  for_each_part(m, n, [&](const Part& part) {
    for (std::int64_t first = 0; first < k; first += widened_depth) {
      const std::int64_t depth = std::min(widened_depth, k - first);
      // The depth goes along the columns of a and the rows of b.
      const MatrixView<Fp16> left = columns_of(rows_of(a, part), {0, 0, first, depth}),
                             right = rows_of(columns_of(b, part), {first, depth, 0, 0});
      widen(left, part.rows, depth, wide.a.data());
      widen(right, depth, part.columns, wide.b.data());
      gemm(part.rows, part.columns, depth, alpha, widened_view(wide.a.data(), a.trans, part.rows, depth),
           widened_view(wide.b.data(), b.trans, depth, part.columns), first == 0 ? beta : 1, at(c, c_stride, part),
           c_stride);
    }
  });
}

Multiplier multiplier() {
  if (uses_matrix_unit()) return Multiplier::matrix_unit;
  return uses_vectors() ? Multiplier::vectors : Multiplier::library;
}

std::int64_t rounding_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, Multiplier by) {
  const bool rounds_tiles = has_few_rows(m, n, k) || by == Multiplier::vectors ||
                            (by == Multiplier::matrix_unit && k <= amx_longest_depth(m, n));
  return rounds_tiles ? 0 : m * n * static_cast<std::int64_t>(sizeof(float));
}

template <class T>
void gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* y,
                  std::int64_t y_stride) {
  const auto finish_into = [=](const Math<T>* sums, std::int64_t stride) {
    return [=](const Part& part) {
      finish_product<T>(at(sums, stride, part), stride, bias ? bias + part.column : nullptr, part.rows, part.columns,
                        at(y, y_stride, part), y_stride);
    };
  };
  if constexpr (std::is_same_v<T, Bf16>) {
    if (has_few_rows(m, n, k)) return few_rows_gemm_rounded(m, n, k, a, b, bias, y, y_stride, few_rows_loops());
    if (on_matrix_unit<T>(m, n, k) && k <= amx_longest_depth(m, n))
      return amx_gemm_rounded(m, n, k, a, b, bias, y, y_stride);
    if (!on_matrix_unit<T>(m, n, k) && on_vectors<T>(m, n, k)) {
      return share_out(m, n, k, [&](const Part& part) {
        vector_gemm_rounded(part.rows, part.columns, k, rows_of(a, part), columns_of(b, part),
                            bias ? bias + part.column : nullptr, at(y, y_stride, part), y_stride);
      });
    }
    thread_local ScratchVector<Math<T>> memory;  // kept from product to product
    memory.resize(std::max(memory.size(), static_cast<std::size_t>(m * n)));
    Math<T>* const sums = memory.data();
    if (on_matrix_unit<T>(m, n, k)) {
      amx_gemm<T>(m, n, k, a, b, sum_into<T>(1, 0, sums, n));
      return finish_into(sums, n)({0, m, 0, n});
    }
    library_product(m, n, k, 1, a, b, 0, sums, n, nothing, finish_into(sums, n));
  } else {
    if constexpr (std::is_same_v<T, float>) {
      if (own_product<T>(m, n, k, a, b,
                         {.alpha = 1, .beta = 0, .base = nullptr, .bias = bias, .y = y, .stride = y_stride}))
        return;
    }
    library_product(m, n, k, 1, a, b, 0, y, y_stride, nothing, finish_into(y, y_stride));
  }
}

template <class T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const Math<T>* base,
              const T* bias, Math<T>* y) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (own_product<T>(m, n, k, a, b, {.alpha = 1, .beta = 1, .base = base, .bias = bias, .y = y, .stride = n})) return;
  }
  const auto start_with_base = [=](const Part& part) {
    add_bias<T>(at(base, n, part), n, bias ? bias + part.column : nullptr, part.rows, part.columns, at(y, n, part), n);
  };
  library_product(m, n, k, 1, a, b, 1, y, n, start_with_base, nothing);
}

template <>
void gemm_rounded<Fp16>(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Fp16> a, MatrixView<Fp16> b,
                        const Fp16* bias, Fp16* y, std::int64_t y_stride) {
  if (has_few_rows(m, n, k)) return few_rows_gemm_rounded(m, n, k, a, b, bias, y, y_stride, few_rows_loops());
  float* const sums = widened_parts().sums.data();
  for_each_part(m, n, [&](const Part& part) {
    gemm(part.rows, part.columns, k, 1, rows_of(a, part), columns_of(b, part), 0, sums, part.columns);
    finish_product<Fp16>(sums, part.columns, bias ? bias + part.column : nullptr, part.rows, part.columns,
                         at(y, y_stride, part), y_stride);
  });
}

template <>
void gemm_add<Fp16>(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Fp16> a, MatrixView<Fp16> b,
                    const float* base, const Fp16* bias, float* y) {
  add_bias<Fp16>(base, n, bias, m, n, y, n);
  gemm(m, n, k, 1, a, b, 1, y, n);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void gemm_rounded<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const T*, T*, \
                                std::int64_t);                                                                        \
  template void gemm_add<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const Math<T>*,   \
                            const T*, Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
