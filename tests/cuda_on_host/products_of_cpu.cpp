// The products of the plug-in, and Muon's iteration, which consists of them: on the host they are the CPU's.
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
                            const T*, Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE
template void orthogonalise<float>(float*, std::int64_t, std::int64_t, std::int64_t, IterationType);
template void orthogonalise<double>(double*, std::int64_t, std::int64_t, std::int64_t, IterationType);

}  // namespace lockstep::cuda
