#include "cuda/kernels/rotate.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"

namespace lockstep::cuda {

namespace {

/// Heads of queries, keys and values side by side in a row.
template <class T>
struct PackedHeads {
  const T* qkv;
  std::int64_t width;
  __device__ const T* at(std::int64_t row, std::int64_t column) const { return qkv + row * width + column; }
};

/// The same heads in a matrix for each of the three.
template <class T>
struct SeparateHeads {
  const T *queries, *keys, *values;
  std::int64_t query_columns, key_columns;
  __device__ const T* at(std::int64_t row, std::int64_t column) const {
    if (column < query_columns) return queries + row * query_columns + column;
    column -= query_columns;
    if (column < key_columns) return keys + row * key_columns + column;
    return values + row * key_columns + column - key_columns;
  }
};

/// A thread has neighbouring pairs of elements, i and i + D/2, of a row's heads.
template <class T, class Heads>
struct RotatePairs {
  static constexpr int lanes = lanes_of_access<T>;
  Heads heads;
  std::int64_t width, half, rotated;  // half: D/2; rotated: pairs of a row that are
  Rotation<Math<T>> rotation;
  const std::int32_t* positions;
  Math<T> sign;
  bool packed;
  T* y;

  __device__ void rotate(std::int64_t row, std::int64_t pair, int count) const {
    const std::int64_t column = pair / half * 2 * half + pair % half;
    const T* const from = heads.at(row, column);
    Math<T> a[lanes], b[lanes], cosine[lanes], sine[lanes];
    load_values(from, count, packed, a);
    load_values(from + half, count, packed, b);
    if (pair < rotated) {
      const std::int64_t angle = positions[row] * half + pair % half;
      load_values(rotation.cosine + angle, count, packed, cosine);
      load_values(rotation.sine + angle, count, packed, sine);
#pragma unroll
      for (int i = 0; i < lanes; ++i) {
        const Math<T> first = a[i] * cosine[i] - sign * b[i] * sine[i];
        b[i] = b[i] * cosine[i] + sign * a[i] * sine[i];
        a[i] = first;
      }
    }
    T* const to = y + row * width + column;
    store_values(a, count, packed, to);
    store_values(b, count, packed, to + half);
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
            RotatePairs<T, PackedHeads<T>>{
                {qkv, shape.width()}, shape.width(), half, rotated, rotation, positions, sign, packed, y});
}

template <class T>
void join_gradients(const T* dq, const T* dk, const T* dv, const AttentionShape& shape, Rotation<Math<T>> rotation,
                    const std::int32_t* positions, std::int64_t rows, T* y) {
  const std::int64_t half = shape.head_size / 2, all = (shape.heads + 2 * shape.kv_heads) * half;
  const std::int64_t rotated = rotation.cosine ? (shape.heads + shape.kv_heads) * half : 0;
  const bool packed = packable(half, lanes_of_access<T>, {dq, dk, dv, rotation.cosine, rotation.sine, y});
  const SeparateHeads<T> heads{dq, dk, dv, shape.heads * shape.head_size, shape.kv_heads * shape.head_size};
  over_rows(rows, all,
            RotatePairs<T, SeparateHeads<T>>{heads, shape.width(), half, rotated, rotation, positions, Math<T>{-1},
                                             packed, y});
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                        \
  template void rotate_heads<T>(const T*, const AttentionShape&, Rotation<Math<T>>, const std::int32_t*, std::int64_t, \
                                RotateBy, T*);                                                                         \
  template void join_gradients<T>(const T*, const T*, const T*, const AttentionShape&, Rotation<Math<T>>,              \
                                  const std::int32_t*, std::int64_t, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
