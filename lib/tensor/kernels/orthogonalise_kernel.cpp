#include "tensor/kernels/orthogonalise_kernel.hpp"

#include "tensor/gemm.hpp"
#include "tensor/kernels/sums_kernel.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

namespace lockstep {

namespace {

constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
constexpr double least_norm = 1e-7;
constexpr std::int64_t elements_a_turn = 1 << 14;  // of a thread

template <class M>
void transpose(const M* from, std::int64_t rows, std::int64_t cols, M* to) {
  constexpr std::int64_t tile = 32;
  parallel_for((rows + tile - 1) / tile, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * tile; i < std::min(rows, end * tile); i += tile)
      for (std::int64_t j = 0; j < cols; j += tile)
        for (std::int64_t r = i; r < std::min(rows, i + tile); ++r)
          for (std::int64_t s = j; s < std::min(cols, j + tile); ++s) to[s * rows + r] = from[r * cols + s];
  });
}

template <class M>
void scale(M* values, std::int64_t count, M factor) {
  parallel_for(count, elements_a_turn, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) values[i] *= factor;
  });
}

void round_to(const float* values, std::int64_t count, Bf16* rounded) {
  parallel_for(count, elements_a_turn, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) store(rounded[i], values[i]);
  });
}

template <class T>
T* take(std::vector<T>& memory, std::int64_t count) {
  if (std::ssize(memory) < count) memory.resize(static_cast<std::size_t>(count));
  return memory.data();
}

template <class M>
struct Buffers {
  std::vector<M> wide, next, square, sum;
};

struct Memory {
  Buffers<float> of_float;
  Buffers<double> of_double;
  std::vector<Bf16> matrix, factor;
  template <class M>
  Buffers<M>& of() {
    if constexpr (std::is_same_v<M, double>) {
      return of_double;
    } else {
      return of_float;
    }
  }
};

}  // namespace

template <class M>
void orthogonalise(M* matrix, std::int64_t rows, std::int64_t cols, std::int64_t steps, IterationType type) {
  thread_local Memory memory;
  const std::int64_t n = std::min(rows, cols), k = std::max(rows, cols);
  Buffers<M>& buffers = memory.of<M>();
  M* const next = take(buffers.next, n * k);
  M* const square = take(buffers.square, n * n);
  M* const sum = take(buffers.sum, n * n);
  M* x = matrix;
  if (rows > cols) {
    x = take(buffers.wide, n * k);
    transpose(matrix, rows, cols, x);
  }
  scale(x, n * k, static_cast<M>(1 / std::max(std::sqrt(sum_of_squares(x, n * k)), least_norm)));
  for (std::int64_t step = 0; step < steps; ++step) {
    std::copy_n(x, n * k, next);
    if constexpr (std::is_same_v<M, float>) {
      if (type == IterationType::bf16) {
        Bf16* const rounded = take(memory.matrix, n * k);
        Bf16* const factor = take(memory.factor, n * n);
        round_to(x, n * k, rounded);
        gemm(n, n, k, 1, MatrixView<Bf16>{rounded, k}, {rounded, k, Trans::yes}, 0, square, n);
        std::copy_n(square, n * n, sum);
        round_to(square, n * n, factor);
        gemm(n, n, n, c, MatrixView<Bf16>{factor, n}, {factor, n}, b, sum, n);
        round_to(sum, n * n, factor);
        gemm(n, k, n, 1, MatrixView<Bf16>{factor, n}, {rounded, k}, a, next, k);
        std::copy_n(next, n * k, x);
        continue;
      }
    }
    gemm(n, n, k, 1, MatrixView<M>{x, k}, {x, k, Trans::yes}, 0, square, n);
    std::copy_n(square, n * n, sum);
    gemm(n, n, n, c, MatrixView<M>{square, n}, {square, n}, b, sum, n);
    gemm(n, k, n, 1, MatrixView<M>{sum, n}, {x, k}, a, next, k);
    std::copy_n(next, n * k, x);
  }
  if (rows > cols) transpose(x, n, k, matrix);
}

template void orthogonalise<float>(float*, std::int64_t, std::int64_t, std::int64_t, IterationType);
template void orthogonalise<double>(double*, std::int64_t, std::int64_t, std::int64_t, IterationType);

std::int64_t orthogonaliser_bytes(std::int64_t rows, std::int64_t cols, std::int64_t element_bytes) {
  constexpr std::int64_t short_bytes = sizeof(Bf16);
  const std::int64_t n = std::min(rows, cols), k = std::max(rows, cols);
  return (2 * n * k + 2 * n * n) * element_bytes + (n * k + n * n) * short_bytes;
}

}  // namespace lockstep
