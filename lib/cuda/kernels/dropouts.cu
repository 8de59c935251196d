#include "cuda/kernels/dropouts.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"
#include "cuda/kernels/philox.cuh"

namespace lockstep::cuda {

namespace {

constexpr int drawn_lanes = 8;  // columns of one Philox block

/// Multiplies the columns from `column` on, a multiple of 8, by the factors of the mask.
template <class M>
__device__ void drop_columns(const DrawnMask& mask, Place place, std::int64_t column, M (&values)[drawn_lanes]) {
  if (place < 0) return;
  const std::uint32_t kept = mask.kept(place, 0, column / drawn_lanes);
  const M scale = static_cast<M>(mask.scale);
#pragma unroll
  for (int i = 0; i < drawn_lanes; ++i) values[i] *= (kept >> i & 1u) != 0 ? scale : M{0};
}

template <class T>
struct DropAndAdd {
  static constexpr int lanes = drawn_lanes;
  DrawnMask mask;
  const Place* places;
  std::int64_t columns;
  bool packed;
  const Math<T>* base;
  const T* bias;
  Math<T>* y;

  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const {
    const std::int64_t at = row * columns + column;
    Math<T> values[lanes], more[lanes];
    load_values(y + at, count, packed, values);
    if (bias) {
      load_values(bias + column, count, packed, more);
#pragma unroll
      for (int i = 0; i < lanes; ++i) values[i] += more[i];
    }
    drop_columns(mask, places[row], column, values);
    load_values(base + at, count, packed, more);
#pragma unroll
    for (int i = 0; i < lanes; ++i) values[i] += more[i];
    store_values(values, count, packed, y + at);
  }
};

template <class T>
struct Drop {
  static constexpr int lanes = drawn_lanes;
  DrawnMask mask;
  const Place* places;
  std::int64_t columns;
  bool packed;
  const Math<T>* x;
  T* y;

  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const {
    const std::int64_t at = row * columns + column;
    Math<T> values[lanes];
    load_values(x + at, count, packed, values);
    drop_columns(mask, places[row], column, values);
    store_values(values, count, packed, y + at);
  }
};

}  // namespace

template <class T>
void dropout_add(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns,
                 const Math<T>* base, const T* bias, Math<T>* y) {
  const bool packed = packable(columns, drawn_lanes, {base, bias, y});
  over_rows(rows, columns, DropAndAdd<T>{drawn_mask(mask), places, columns, packed, base, bias, y});
}

template <class T>
void dropout(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns, const Math<T>* x,
             T* y) {
  const bool packed = packable(columns, drawn_lanes, {x, y});
  over_rows(rows, columns, Drop<T>{drawn_mask(mask), places, columns, packed, x, y});
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                        \
  template void dropout_add<T>(const DropoutMask&, const Place*, std::int64_t, std::int64_t, const Math<T>*, const T*, \
                               Math<T>*);                                                                              \
  template void dropout<T>(const DropoutMask&, const Place*, std::int64_t, std::int64_t, const Math<T>*, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
