// The entries of the plug-in that call libraries. On the host, products and Muon's iteration, which consists of them,
// are the CPU's, and the plug-in's own kernel computes all attention.
#include "cuda/flash_attention.hpp"
#include "cuda/kernels/causal_attention.hpp"
#include "cuda/orthogonalise.hpp"
#include "cuda/product_entries.hpp"
#include "tensor/gemm.hpp"

namespace lockstep::cuda {

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b, double beta,
          Math<T>* c, std::int64_t c_stride) {
  lockstep::gemm(m, n, k, alpha, a, b, beta, c, c_stride);
}

template <class T>
void gemm_scaled(std::int64_t m, std::int64_t n, std::int64_t k, const double* alpha, MatrixView<T> a, MatrixView<T> b,
                 double beta, Math<T>* c, std::int64_t c_stride) {
  lockstep::gemm_scaled<T>(m, n, k, alpha, a, b, beta, c, c_stride);
}

template <class T>
void gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* y,
                  std::int64_t y_stride) {
  lockstep::gemm_rounded<T>(m, n, k, a, b, bias, y, y_stride);
}

template <class T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const Math<T>* base,
              const T* bias, Math<T>* y) {
  lockstep::gemm_add<T>(m, n, k, a, b, base, bias, y);
}

template <class T>
void gpu_attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                           const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  cuda::attention_forward<T>(qkv, shape, segments, rotation, positions, y, log_sums, dropout);
}

template <class T>
void gpu_attention_backward(const T* dy, const T* qkv, const T* y, const Math<T>* log_sums, const AttentionShape& shape,
                            Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                            const AttentionDropout& dropout) {
  cuda::attention_backward<T>(dy, qkv, y, log_sums, shape, segments, rotation, positions, dqkv, dropout);
}

template <class M>
void orthogonalise(M* matrix, std::int64_t rows, std::int64_t cols, std::int64_t steps, IterationType type) {
  lockstep::orthogonalise<M>(matrix, rows, cols, steps, type);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, double, MatrixView<T>, MatrixView<T>, double,       \
                        Math<T>*, std::int64_t);                                                                      \
  template void gemm_scaled<T>(std::int64_t, std::int64_t, std::int64_t, const double*, MatrixView<T>, MatrixView<T>, \
                               double, Math<T>*, std::int64_t);                                                       \
  template void gemm_rounded<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const T*, T*, \
                                std::int64_t);                                                                        \
  template void gemm_add<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const Math<T>*,   \
                            const T*, Math<T>*);                                                                      \
  template void gpu_attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,                \
                                         const std::int32_t*, T*, Math<T>*, const AttentionDropout&);                 \
  template void gpu_attention_backward<T>(const T*, const T*, const T*, const Math<T>*, const AttentionShape&,        \
                                          Segments, Rotation<Math<T>>, const std::int32_t*, T*,                       \
                                          const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE
template void orthogonalise<float>(float*, std::int64_t, std::int64_t, std::int64_t, IterationType);
template void orthogonalise<double>(double*, std::int64_t, std::int64_t, std::int64_t, IterationType);

}  // namespace lockstep::cuda
