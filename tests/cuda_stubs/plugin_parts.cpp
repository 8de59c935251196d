// The parts of the plug-in that need LibTorch or a GPU, for tests of the others.
#include "base/error.hpp"
#include "cuda/kernel_entries.hpp"
#include "cuda/kernels/muon_iteration.hpp"
#include "cuda/kernels/product_arguments.hpp"
#include "cuda/kernels/round.hpp"
#include "cuda/kernels/step_sums.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda_stubs/stubs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep {

namespace stubs {

LibTorchState& libtorch() {
  static LibTorchState state;
  return state;
}

}  // namespace stubs

namespace cuda {

void open_libtorch_cuda() {
  if (stubs::libtorch().is_missing) open_library("/nowhere/libtorch_cuda.so");
  ++stubs::libtorch().opened;
}

void count_tensor_memory(void (*count)(std::int64_t bytes)) { stubs::libtorch().count = count; }

std::shared_ptr<void> device_memory(std::size_t bytes) {
  ++stubs::libtorch().blocks;
  const std::shared_ptr<void> memory(std::malloc(bytes), &std::free);
  // As with LibTorch's allocator, work that is queued before the release may still use it.
  return {memory.get(), [memory](void*) {
            --stubs::libtorch().blocks;
            stubs::queue_kernel([memory] {});
          }};
}

const KernelTables& kernel_tables() {
  static const KernelTables none;
  return none;
}

template <class T>
void widen_row(const T* x, std::int64_t count, float* out) {
  stubs::queue_kernel([=] {
    for (std::int64_t i = 0; i < count; ++i) out[i] = load(x[i]);
  });
}

template <class M>
void product_factors(const double* alpha, double beta, M* factors) {
  stubs::queue_kernel([=] {
    factors[0] = static_cast<M>(*alpha);
    factors[1] = static_cast<M>(beta);
  });
}

template <class M>
void transpose(const M* from, std::int64_t rows, std::int64_t cols, M* to) {
  stubs::queue_kernel([=] {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
  });
}

template <class M>
void divide_by_norm(M* values, std::int64_t count, const double* square_sum, double least) {
  stubs::queue_kernel([=] {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= static_cast<M>(1 / std::max(std::sqrt(*square_sum), least));
  });
}

template <class M>
void add_square_sum(const M* values, std::int64_t count, double* sum) {
  stubs::queue_kernel([=] {
    for (std::int64_t i = 0; i < count; ++i) *sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  });
}

template <class T>
void round_to(const Math<T>* x, std::int64_t count, T* y) {
  stubs::queue_kernel([=] {
    for (std::int64_t i = 0; i < count; ++i) store(y[i], x[i]);
  });
}

template void transpose<float>(const float*, std::int64_t, std::int64_t, float*);
template void transpose<double>(const double*, std::int64_t, std::int64_t, double*);
template void divide_by_norm<float>(float*, std::int64_t, const double*, double);
template void divide_by_norm<double>(double*, std::int64_t, const double*, double);
template void add_square_sum<float>(const float*, std::int64_t, double*);
template void add_square_sum<double>(const double*, std::int64_t, double*);
template void round_to<Bf16>(const float*, std::int64_t, Bf16*);
template void widen_row<Bf16>(const Bf16*, std::int64_t, float*);
template void widen_row<Fp16>(const Fp16*, std::int64_t, float*);
template void product_factors<float>(const double*, double, float*);
template void product_factors<double>(const double*, double, double*);

}  // namespace cuda

}  // namespace lockstep
