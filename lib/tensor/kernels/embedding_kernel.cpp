#include "tensor/kernels/embedding_kernel.hpp"

#include "tensor/parallel.hpp"

namespace lockstep {

namespace {

template <class T>
LOCKSTEP_CLONES void gather(const T* table, const std::int32_t* indices, std::int64_t begin, std::int64_t end,
                            std::int64_t channels, StoreMode mode, Math<T>* y) {
  for (std::int64_t r = begin; r < end; ++r) {
    Math<T>* out = y + r * channels;
    if (indices[r] < 0) {
      if (mode == StoreMode::overwrite) std::fill_n(out, channels, Math<T>{0});
      continue;
    }
    const T* in = table + indices[r] * channels;
    if (mode == StoreMode::overwrite) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) out[c] = load(in[c]);
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) out[c] += load(in[c]);
    }
  }
}

/// Rows whose index is in [first, last): each entry belongs to one thread, which meets its rows in order.
template <class M>
LOCKSTEP_CLONES void scatter(const M* dy, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                             std::int64_t first, std::int64_t last, M* dtable) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (indices[r] < first || indices[r] >= last) continue;
    const M* in = dy + r * channels;
    M* out = dtable + indices[r] * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) out[c] += in[c];
  }
}

}  // namespace

void indices_of_part(const std::int32_t* indices, std::int64_t count, std::int32_t first, std::int32_t entries,
                     std::int32_t* own) {
  for (std::int64_t i = 0; i < count; ++i)
    own[i] = indices[i] >= first && indices[i] - first < entries ? indices[i] - first : -1;
}

template <class T>
void embedding_forward(const T* table, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                       StoreMode mode, Math<T>* y) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, channels));
  parallel_for(rows, grain,
               [=](std::int64_t begin, std::int64_t end) { gather<T>(table, indices, begin, end, channels, mode, y); });
}

template <class M>
void embedding_backward(const M* dy, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                        std::int64_t entries, double beta, M* dtable) {
  parallel_for(entries, 16, [=](std::int64_t first, std::int64_t last) {
    M* const own = dtable + first * channels;
    const std::int64_t count = (last - first) * channels;
    if (beta == 0) std::fill_n(own, count, M{0});
    if (beta != 0 && beta != 1)
      std::transform(own, own + count, own, [=](M value) { return static_cast<M>(beta) * value; });
    scatter<M>(dy, indices, rows, channels, first, last, dtable);
  });
}

template void embedding_forward<float>(const float*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode,
                                       float*);
template void embedding_forward<double>(const double*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode,
                                        double*);
template void embedding_forward<Bf16>(const Bf16*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode, float*);
template void embedding_forward<Fp16>(const Fp16*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode, float*);
template void embedding_backward<float>(const float*, const std::int32_t*, std::int64_t, std::int64_t, std::int64_t,
                                        double, float*);
template void embedding_backward<double>(const double*, const std::int32_t*, std::int64_t, std::int64_t, std::int64_t,
                                         double, double*);

}  // namespace lockstep
