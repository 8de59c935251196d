// Launches of kernels, and their shared memory. Tests compile kernels for the host, with forms of their own:
// tests/cuda_on_host.
#pragma once

#include "cuda/stream.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

// Bounds with at least 1 block, __launch_bounds__(threads, 1), keep the compiler from spilling registers so that more
// blocks fit.

namespace lockstep::cuda {

constexpr int invalid_launch = 1;  // cudaErrorInvalidValue, for check_launch

}

#ifdef __CUDACC__

/// Memory of a block: `name` is the first of `count` values.
#define LOCKSTEP_SHARED(Type, name, count) __shared__ Type name[count]
/// Memory of a block, as large as its launch asks for.
#define LOCKSTEP_DYNAMIC_SHARED(Type, name)                      \
  extern __shared__ __align__(16) unsigned char dynamic_bytes[]; \
  Type* const name = reinterpret_cast<Type*>(dynamic_bytes)

namespace lockstep::cuda {

/// Queues `blocks` blocks of `threads` threads, with `bytes` of dynamic shared memory each, in a stream.
template <class... Parameters>
void launch_in(CUstream_st* stream, void (*kernel)(Parameters...), std::int64_t blocks, unsigned threads,
               std::size_t bytes, std::type_identity_t<Parameters>... arguments) {
  if (blocks == 0) return;
  if (blocks > std::numeric_limits<std::int32_t>::max()) check_launch(invalid_launch);
  constexpr std::size_t granted = 48 << 10;  // bytes of a block that need no permission
  if (bytes > granted)
    check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(arguments...);
  check_launch(cudaGetLastError());
}

}  // namespace lockstep::cuda

#endif

namespace lockstep::cuda {

/// The same in the stream that computes.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), std::int64_t blocks, unsigned threads, std::size_t bytes,
            std::type_identity_t<Parameters>... arguments) {
  launch_in(compute_stream(), kernel, blocks, threads, bytes, arguments...);
}

}  // namespace lockstep::cuda
