#include "tensor/kernels/bias.hpp"

#include "tensor/kernels/row_grain.hpp"
#include "tensor/parallel.hpp"

#include <type_traits>

namespace lockstep {

namespace {

template <class Out, class T>
LOCKSTEP_CLONES void add_rows(const Math<T>* x, std::int64_t x_stride, const T* bias, std::int64_t begin,
                              std::int64_t end, std::int64_t columns, Out* y, std::int64_t y_stride) {
  for (std::int64_t r = begin; r < end; ++r) {
    const Math<T>* in = x + r * x_stride;
    Out* out = y + r * y_stride;
    if (bias) {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) store(out[c], in[c] + load(bias[c]));
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) store(out[c], in[c]);
    }
  }
}

template <class T>
LOCKSTEP_CLONES void load_row(const T* x, std::int64_t count, float* out) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = load(x[i]);
}

constexpr std::int64_t values_per_thread = 16384;

}  // namespace

template <class T>
void finish_product(const Math<T>* product, std::int64_t product_stride, const T* bias, std::int64_t rows,
                    std::int64_t columns, T* y, std::int64_t y_stride) {
  if constexpr (std::is_same_v<T, Math<T>>) {
    if (y == product && bias == nullptr) return;
  }
  parallel_for(rows, row_grain(columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    add_rows<T, T>(product, product_stride, bias, begin, end, columns, y, y_stride);
  });
}

template <class T>
void add_bias(const Math<T>* x, std::int64_t x_stride, const T* bias, std::int64_t rows, std::int64_t columns,
              Math<T>* y, std::int64_t y_stride) {
  parallel_for(rows, row_grain(columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    add_rows<Math<T>, T>(x, x_stride, bias, begin, end, columns, y, y_stride);
  });
}

template <class T>
void widen_row(const T* x, std::int64_t count, float* out) {
  load_row<T>(x, count, out);
}
template void widen_row<Bf16>(const Bf16*, std::int64_t, float*);
template void widen_row<Fp16>(const Fp16*, std::int64_t, float*);

template <class T>
void round_to(const Math<T>* x, std::int64_t count, T* y) {
  parallel_for(count, values_per_thread, [=](std::int64_t begin, std::int64_t end) {
    add_rows<T, T>(x + begin, 0, nullptr, 0, 1, end - begin, y + begin, 0);
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                           \
  template void finish_product<T>(const Math<T>*, std::int64_t, const T*, std::int64_t, std::int64_t, T*, \
                                  std::int64_t);                                                          \
  template void add_bias<T>(const Math<T>*, std::int64_t, const T*, std::int64_t, std::int64_t, Math<T>*, \
                            std::int64_t);                                                                \
  template void round_to<T>(const Math<T>*, std::int64_t, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
