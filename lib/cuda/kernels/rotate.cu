#include "cuda/kernels/rotate.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"

namespace lockstep::cuda {

namespace {

/// A thread has neighbouring pairs of elements, i and i + D/2, of a row's heads.
template <class T>
struct RotatePairs {
  static constexpr int lanes = lanes_of_access<T>;
  const T* qkv;
  std::int64_t width, half, rotated;  // half: D/2; rotated: pairs of a row that are
  Rotation<Math<T>> rotation;
  const std::int32_t* positions;
  Math<T> sign;
  bool packed;
  T* y;

  __device__ void rotate(std::int64_t row, std::int64_t pair, int count) const {
    const std::int64_t angle = positions[row] * half + pair % half;
    const std::int64_t at = row * width + pair / half * 2 * half + pair % half;
    Math<T> a[lanes], b[lanes], cosine[lanes], sine[lanes];
    load_values(qkv + at, count, packed, a);
    load_values(qkv + at + half, count, packed, b);
    if (pair < rotated) {
      load_values(rotation.cosine + angle, count, packed, cosine);
      load_values(rotation.sine + angle, count, packed, sine);
#pragma unroll
      for (int i = 0; i < lanes; ++i) {
        const Math<T> first = a[i] * cosine[i] - sign * b[i] * sine[i];
        b[i] = b[i] * cosine[i] + sign * a[i] * sine[i];
        a[i] = first;
      }
    }
    store_values(a, count, packed, y + at);
    store_values(b, count, packed, y + at + half);
  }
  __device__ void operator()(std::int64_t row, std::int64_t pair, int count) const {
    if (packed) return rotate(row, pair, count);
    for (int i = 0; i < count; ++i) rotate(row, pair + i, 1);  // they may belong to two heads
  }
};

}  // namespace

template <class T>
void rotate_heads(const T* qkv, const AttentionShape& shape, Rotation<Math<T>> rotation, const std::int32_t* positions,
                  std::int64_t rows, RotateBy by, T* y) {
  const std::int64_t half = shape.head_size / 2, rotated = (shape.heads + shape.kv_heads) * half;
  const bool packed = packable(half, lanes_of_access<T>, {qkv, rotation.cosine, rotation.sine, y});
  const Math<T> sign = by == RotateBy::position ? 1 : -1;
  over_rows(rows, rotated + shape.kv_heads * half,
            RotatePairs<T>{qkv, shape.width(), half, rotated, rotation, positions, sign, packed, y});
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                        \
  template void rotate_heads<T>(const T*, const AttentionShape&, Rotation<Math<T>>, const std::int32_t*, std::int64_t, \
                                RotateBy, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
