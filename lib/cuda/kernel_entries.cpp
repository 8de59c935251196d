#include "cuda/kernel_entries.hpp"

#include "cuda/product_entries.hpp"

namespace lockstep::cuda {

namespace {

template <class T>
Kernels<T> entries() {
  return {.gemm = cuda::gemm<T>,
          .gemm_scaled = cuda::gemm_scaled<T>,
          .gemm_rounded = cuda::gemm_rounded<T>,
          .gemm_add = cuda::gemm_add<T>};
}

}  // namespace

const KernelTables& kernel_tables() {
  static const KernelTables tables{entries<float>(), entries<double>(), entries<Bf16>(), entries<Fp16>()};
  return tables;
}

}  // namespace lockstep::cuda
