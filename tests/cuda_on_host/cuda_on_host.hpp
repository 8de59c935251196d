// The words of CUDA C++ that our kernels use, for a host compiler: include it before the source of a kernel. Blocks run
// as tests/cuda_on_host/grid.hpp says.
#pragma once

#include "cuda_on_host/grid.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define LOCKSTEP_SHARED(Type, name, count) \
  static char name##_tag;                  \
  Type* const name = static_cast<Type*>(on_host::shared_memory(&name##_tag, sizeof(Type) * (count)))
#define LOCKSTEP_DYNAMIC_SHARED(Type, name) Type* const name = static_cast<Type*>(on_host::dynamic_memory())

namespace on_host {

template <auto value>
struct BuiltIn {
  struct {
    operator unsigned() const { return value(); }
  } x;
};

template <class T>
std::uint64_t word_of(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T>
T value_of(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

}  // namespace on_host

inline constexpr on_host::BuiltIn<on_host::thread_index> threadIdx{};
inline constexpr on_host::BuiltIn<on_host::block_index> blockIdx{};
inline constexpr on_host::BuiltIn<on_host::threads_of_block> blockDim{};
inline constexpr on_host::BuiltIn<on_host::blocks_of_grid> gridDim{};

inline void __syncthreads(std::source_location where = std::source_location::current()) { on_host::barrier(where); }
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, std::source_location where = std::source_location::current()) {
  return on_host::value_of<T>(on_host::exchange(on_host::word_of(value), mask,
                                                (on_host::thread_index() % 32) ^ static_cast<unsigned>(lanes), where));
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, std::source_location where = std::source_location::current()) {
  return on_host::value_of<T>(on_host::exchange(on_host::word_of(value), mask, static_cast<unsigned>(lane), where));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance,
                 std::source_location where = std::source_location::current()) {
  const unsigned lane = on_host::thread_index() % 32;
  return on_host::value_of<T>(
      on_host::exchange(on_host::word_of(value), mask, lane < distance ? lane : lane - distance, where));
}
inline unsigned __ballot_sync(unsigned mask, bool holds, std::source_location where = std::source_location::current()) {
  return on_host::ballot(holds, mask, where);
}
inline void __syncwarp(std::source_location where = std::source_location::current()) {
  on_host::exchange(0, 0xffffffff, 0, where);
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }

struct CUstream_st;

namespace lockstep::cuda {

template <class... Parameters>
void launch_in(CUstream_st*, void (*kernel)(Parameters...), std::int64_t blocks, unsigned threads, std::size_t bytes,
               std::type_identity_t<Parameters>... arguments) {
  if (blocks == 0) return;
  on_host::run_grid(blocks, threads, bytes, [&] { kernel(arguments...); });
}

}  // namespace lockstep::cuda
