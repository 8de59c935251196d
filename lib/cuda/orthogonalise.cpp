#include "cuda/orthogonalise.hpp"

#include "cuda/device_failure.hpp"
#include "cuda/kernels/muon_iteration.hpp"
#include "cuda/kernels/round.hpp"
#include "cuda/kernels/step_sums.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda/product_entries.hpp"
#include "cuda/stream.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace lockstep::cuda {

namespace {

constexpr double of_matrix = 3.4445, of_square = -4.7750, of_fourth = 2.0315;
constexpr double least_norm = 1e-7;

/// Consecutive parts of one block of device memory.
class Parts {
 public:
  template <class T>
  T* take(std::int64_t count) {
    constexpr std::size_t border = 256;  // bytes
    const std::size_t begin = end_;
    end_ += (static_cast<std::size_t>(count) * sizeof(T) + border - 1) / border * border;
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_.get() + begin);
  }
  std::size_t bytes() const { return end_; }
  void begin_in(std::shared_ptr<std::byte> memory) {
    memory_ = std::move(memory);
    end_ = 0;
  }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t end_ = 0;
};

template <class M>
struct Iteration {
  double* square_sum;
  M *wide, *next, *square, *sum;
  Bf16 *matrix, *factor;

  Iteration(Parts& parts, std::int64_t n, std::int64_t k, bool transposed, bool rounds)
      : square_sum(parts.take<double>(1)),
        wide(parts.take<M>(transposed ? n * k : 0)),
        next(parts.take<M>(n * k)),
        square(parts.take<M>(n * n)),
        sum(parts.take<M>(n * n)),
        matrix(parts.take<Bf16>(rounds ? n * k : 0)),
        factor(parts.take<Bf16>(rounds ? n * n : 0)) {}

  /// next = x after one step.
  void step(std::int64_t n, std::int64_t k, const M* x, bool rounds) const {
    if constexpr (std::is_same_v<M, float>) {
      if (rounds) {
        cuda::round_to<Bf16>(x, n * k, matrix);
        gemm<Bf16>(n, n, k, 1, {matrix, k}, {matrix, k, Trans::yes}, 0, square, n);
        cuda::round_to<Bf16>(square, n * n, factor);
        gemm_onto<Bf16>(n, n, n, of_fourth, {factor, n}, {factor, n}, of_square, square, sum);
        cuda::round_to<Bf16>(sum, n * n, factor);
        gemm_onto<Bf16>(n, k, n, 1, {factor, n}, {matrix, k}, of_matrix, x, next);
        return;
      }
    }
    gemm<M>(n, n, k, 1, {x, k}, {x, k, Trans::yes}, 0, square, n);
    gemm_onto<M>(n, n, n, of_fourth, {square, n}, {square, n}, of_square, square, sum);
    gemm_onto<M>(n, k, n, 1, {sum, n}, {x, k}, of_matrix, x, next);
  }
};

}  // namespace

template <class M>
void orthogonalise(M* matrix, std::int64_t rows, std::int64_t cols, std::int64_t steps, IterationType type) {
  const std::int64_t n = std::min(rows, cols), k = std::max(rows, cols);
  if (n == 0) return;
  const bool transposed = rows > cols, rounds = type == IterationType::bf16 && std::is_same_v<M, float>;
  Parts parts;
  static_cast<void>(Iteration<M>(parts, n, k, transposed, rounds));  // measures
  parts.begin_in(std::static_pointer_cast<std::byte>(device_memory(parts.bytes())));
  Iteration<M> memory(parts, n, k, transposed, rounds);
  M* x = matrix;
  if (transposed) {
    x = memory.wide;
    transpose(matrix, rows, cols, x);
  }
  call("cannot clear a sum",
       [&] { return cudaMemset2DAsync(memory.square_sum, sizeof(double), 0, sizeof(double), 1, compute_stream()); });
  add_square_sum(x, n * k, memory.square_sum);
  divide_by_norm(x, n * k, memory.square_sum, least_norm);
  for (std::int64_t step = 0; step < steps; ++step) {
    memory.step(n, k, x, rounds);
    std::swap(x, memory.next);
  }
  if (transposed) {
    transpose(x, n, k, matrix);
  } else if (x != matrix) {
    call("cannot copy a matrix", [&] {
      return cudaMemcpyAsync(matrix, x, static_cast<std::size_t>(n * k) * sizeof(M), cudaMemcpyDeviceToDevice,
                             compute_stream());
    });
  }
}

template void orthogonalise<float>(float*, std::int64_t, std::int64_t, std::int64_t, IterationType);
template void orthogonalise<double>(double*, std::int64_t, std::int64_t, std::int64_t, IterationType);

}  // namespace lockstep::cuda
