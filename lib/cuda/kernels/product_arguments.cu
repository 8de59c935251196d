#include "cuda/kernels/product_arguments.hpp"
#include "cuda/stream.hpp"

#include <cuda_fp16.h>

namespace lockstep::cuda {

namespace {

__device__ float wide(Bf16 value) { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }
__device__ float wide(Fp16 value) { return __half2float(__ushort_as_half(value.bits)); }

template <class T>
__global__ void widen(const T* x, std::int64_t count, float* out) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = wide(x[i]);
}

template <class M>
__global__ void set_factors(const double* alpha, double beta, M* factors) {
  factors[0] = static_cast<M>(*alpha);
  factors[1] = static_cast<M>(beta);
}

}  // namespace

template <class T>
void widen_row(const T* x, std::int64_t count, float* out) {
  constexpr unsigned threads = 256;
  if (count == 0) return;
  widen<<<static_cast<unsigned>((count + threads - 1) / threads), threads, 0, compute_stream()>>>(x, count, out);
  check_launch(cudaGetLastError());
}

template <class M>
void product_factors(const double* alpha, double beta, M* factors) {
  set_factors<<<1, 1, 0, compute_stream()>>>(alpha, beta, factors);
  check_launch(cudaGetLastError());
}

template void widen_row<Bf16>(const Bf16*, std::int64_t, float*);
template void widen_row<Fp16>(const Fp16*, std::int64_t, float*);
template void product_factors<float>(const double*, double, float*);
template void product_factors<double>(const double*, double, double*);

}  // namespace lockstep::cuda
