// The parts of the plug-in that need LibTorch or a GPU, for tests of the others.
#include "base/error.hpp"
#include "cuda/kernel_entries.hpp"
#include "cuda/kernels/product_arguments.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda_stubs/stubs.hpp"

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

template void widen_row<Bf16>(const Bf16*, std::int64_t, float*);
template void widen_row<Fp16>(const Fp16*, std::int64_t, float*);
template void product_factors<float>(const double*, double, float*);
template void product_factors<double>(const double*, double, double*);

}  // namespace cuda

}  // namespace lockstep
