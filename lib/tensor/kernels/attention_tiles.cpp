#include "tensor/kernels/attention_tiles.hpp"

#include "tensor/kernels/wide.hpp"

namespace lockstep {

namespace {

#ifdef LOCKSTEP_INTRINSICS
/// `to` (rows, columns) = from · scale, rounded where it is bf16.
template <class From, class To>
LOCKSTEP_WIDE void scale_wide(const From* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                              float scale, To* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    for (std::int64_t c = 0; c < columns; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(columns - c);
      store_wide(to + c, lanes, _mm512_mul_ps(load_wide(from + c, lanes), _mm512_set1_ps(scale)));
    }
  }
}
#else
template <class From, class To>
void scale_wide(const From*, std::int64_t, std::int64_t, std::int64_t, float, To*, std::int64_t) {}
#endif

template <class T>
LOCKSTEP_CLONES void pack_rows(const T* rows, std::int64_t stride, std::int64_t length, std::int64_t head_size,
                               Rotation<Math<T>> rotation, const std::int32_t* positions, Math<T> scale, Math<T>* out) {
  using M = Math<T>;
  const std::int64_t half = head_size / 2;
  for (std::int64_t r = 0; r < length; ++r) {
    const T* in = rows + r * stride;
    M* target = out + r * head_size;
    if (rotation.cosine) {
      const M* cosine = rotation.cosine + positions[r] * half;
      const M* sine = rotation.sine + positions[r] * half;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const M first = load(in[i]) * scale, second = load(in[i + half]) * scale;
        target[i] = first * cosine[i] - second * sine[i];
        target[i + half] = second * cosine[i] + first * sine[i];
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < head_size; ++i) target[i] = load(in[i]) * scale;
    }
  }
}

template <class T>
LOCKSTEP_CLONES void unpack_rows(const Math<T>* in, std::int64_t length, std::int64_t head_size,
                                 Rotation<Math<T>> rotation, const std::int32_t* positions, Math<T> scale, T* rows,
                                 std::int64_t stride) {
  using M = Math<T>;
  const std::int64_t half = head_size / 2;
  for (std::int64_t r = 0; r < length; ++r) {
    const M* source = in + r * head_size;
    T* out = rows + r * stride;
    if (rotation.cosine) {
      const M* cosine = rotation.cosine + positions[r] * half;
      const M* sine = rotation.sine + positions[r] * half;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const M first = source[i] * scale, second = source[i + half] * scale;
        store(out[i], first * cosine[i] + second * sine[i]);
        store(out[i + half], second * cosine[i] - first * sine[i]);
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < head_size; ++i) store(out[i], source[i] * scale);
    }
  }
}

template <class T>
LOCKSTEP_CLONES void store_scaled(const Math<T>* in, const Math<T>* scales, std::int64_t rows, std::int64_t columns,
                                  T* out, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) store(out[r * stride + c], in[r * columns + c] * scales[r]);
  }
}

}  // namespace

template <class T>
void pack_head(const T* rows, std::int64_t stride, std::int64_t length, std::int64_t head_size,
               Rotation<Math<T>> rotation, const std::int32_t* positions, Math<T> scale, Math<T>* out) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (!rotation.cosine && is_wide()) return scale_wide(rows, stride, length, head_size, scale, out, head_size);
  }
  pack_rows<T>(rows, stride, length, head_size, rotation, positions, scale, out);
}

template <class T>
void unpack_head(const Math<T>* in, std::int64_t length, std::int64_t head_size, Rotation<Math<T>> rotation,
                 const std::int32_t* positions, Math<T> scale, T* rows, std::int64_t stride) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (!rotation.cosine && is_wide()) return scale_wide(in, head_size, length, head_size, scale, rows, stride);
  }
  unpack_rows<T>(in, length, head_size, rotation, positions, scale, rows, stride);
}

template <class T>
void store_rows(const Math<T>* in, const Math<T>* scales, std::int64_t rows, std::int64_t columns, T* out,
                std::int64_t stride) {
  store_scaled<T>(in, scales, rows, columns, out, stride);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                    \
  template void pack_head<T>(const T*, std::int64_t, std::int64_t, std::int64_t, Rotation<Math<T>>,                \
                             const std::int32_t*, Math<T>, Math<T>*);                                              \
  template void unpack_head<T>(const Math<T>*, std::int64_t, std::int64_t, Rotation<Math<T>>, const std::int32_t*, \
                               Math<T>, T*, std::int64_t);                                                         \
  template void store_rows<T>(const Math<T>*, const Math<T>*, std::int64_t, std::int64_t, T*, std::int64_t);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
