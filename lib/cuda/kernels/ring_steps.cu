// The ends of ring attention: before and after its steps, which are in cuda/kernels/causal_attention.cu.
#include "cuda/kernels/ring_steps.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"
#include "cuda/kernels/reductions.cuh"

#include <cmath>

namespace lockstep::cuda {

namespace {

/// A value of a row of heads, from sums head by head.
template <class T>
struct RingResult {
  static constexpr int lanes = 1;
  const Math<T>* sums;
  std::int64_t rows, heads, size;
  T* y;

  __device__ void operator()(std::int64_t row, std::int64_t column, int) const {
    narrow(sums[(column / size * rows + row) * size + column % size], y[row * heads * size + column]);
  }
};

/// A warp has a head of a row.
template <class T>
__global__ void __launch_bounds__(256)
    multiply_heads(const T* dy, const T* y, std::int64_t count, std::int64_t size, Math<T>* products) {
  const std::int64_t head = std::int64_t{blockIdx.x} * 8 + threadIdx.x / warp_size;
  if (head >= count) return;
  Math<T> sum = 0;
  for (std::int64_t i = threadIdx.x % warp_size; i < size; i += warp_size)
    sum += widened(dy[head * size + i]) * widened(y[head * size + i]);
  sum = warp_sum(sum);
  if (threadIdx.x % warp_size == 0) products[head] = sum;
}

/// A value of the gradient of qkv, rotated back if its head is rotated.
template <class T>
struct RingGradient {
  static constexpr int lanes = 1;
  const Math<T>*dq, *dkv;
  AttentionShape shape;
  std::int64_t rows, width;
  Rotation<Math<T>> rotation;
  const std::int32_t* positions;
  Math<T> scale;  // of queries
  T* dqkv;

  __device__ void operator()(std::int64_t row, std::int64_t column, int) const {
    const std::int64_t size = shape.head_size, half = size / 2, head = column / size, i = column % size;
    const bool is_query = head < shape.heads;
    const Math<T>* const from =
        (is_query ? dq + head * rows * size : dkv + (head - shape.heads) * rows * size) + row * size;
    Math<T> value = from[i];
    if (rotation.cosine && head < shape.heads + shape.kv_heads) {
      const bool is_first = i < half;
      const std::int64_t angle = std::int64_t{positions[row]} * half + (is_first ? i : i - half);
      const Math<T> other = is_first ? from[i + half] : -from[i - half];
      value = value * rotation.cosine[angle] + other * rotation.sine[angle];
    }
    narrow(is_query ? value * scale : value, dqkv[row * width + column]);
  }
};

}  // namespace

template <class T>
void ring_attention_result(const RingStep& step, const Math<T>* sums, T* y) {
  const std::int64_t heads = step.shape.heads, size = step.shape.head_size;
  over_rows(step.rows, heads * size, RingResult<T>{sums, step.rows, heads, size, y});
}

template <class T>
void ring_attention_products(const RingStep& step, const T* dy, const T* y, Math<T>* products) {
  const std::int64_t count = step.rows * step.shape.heads;
  launch(multiply_heads<T>, (count + 7) / 8, 256, 0, dy, y, count, step.shape.head_size, products);
}

template <class T>
void ring_attention_gradient(const RingStep& step, const Math<T>* dq, const Math<T>* dkv, Rotation<Math<T>> rotation,
                             T* dqkv) {
  const auto scale = static_cast<Math<T>>(1 / std::sqrt(static_cast<double>(step.shape.head_size)));
  over_rows(
      step.rows, step.shape.width(),
      RingGradient<T>{dq, dkv, step.shape, step.rows, step.shape.width(), rotation, step.own.positions, scale, dqkv});
}

#define LOCKSTEP_INSTANTIATE(T)                                                            \
  template void ring_attention_result<T>(const RingStep&, const Math<T>*, T*);             \
  template void ring_attention_products<T>(const RingStep&, const T*, const T*, Math<T>*); \
  template void ring_attention_gradient<T>(const RingStep&, const Math<T>*, const Math<T>*, Rotation<Math<T>>, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
