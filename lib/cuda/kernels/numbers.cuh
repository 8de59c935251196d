// Numbers in kernels: conversions between storage and math types, functions of them, and groups of values that a thread
// loads and stores at once.
#pragma once

#include "tensor/kernels/number.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace lockstep::cuda {

__device__ inline float widened(float value) { return value; }
__device__ inline double widened(double value) { return value; }
__device__ inline float widened(Bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }
__device__ inline float widened(Fp16 value) {
#ifdef __CUDACC__
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
#else
  return from_f16(value.bits);
#endif
}

// Round to nearest even; NaN stays NaN.
__device__ inline void narrow(float value, float& to) { to = value; }
__device__ inline void narrow(double value, double& to) { to = value; }
__device__ inline void narrow(float value, Bf16& to) {
#ifdef __CUDACC__
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
#else
  store(to, value);
#endif
}
__device__ inline void narrow(float value, Fp16& to) {
#ifdef __CUDACC__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
#else
  store(to, value);
#endif
}

__device__ inline float exp(float x) { return ::expf(x); }
__device__ inline double exp(double x) { return ::exp(x); }
__device__ inline float log(float x) { return ::logf(x); }
__device__ inline double log(double x) { return ::log(x); }
__device__ inline float sqrt(float x) { return ::sqrtf(x); }
__device__ inline double sqrt(double x) { return ::sqrt(x); }
__device__ inline float erf(float x) { return ::erff(x); }
__device__ inline double erf(double x) { return ::erf(x); }
/// 1 / (1 + e^-x).
template <class M>
__device__ M sigmoid(M x) {
  return 1 / (1 + exp(-x));
}

/// Values of T in one access of 16 bytes.
template <class T>
constexpr int lanes_of_access = 16 / static_cast<int>(sizeof(T));

/// Consecutive values that are loaded or stored by one instruction.
template <class T, int count>
struct alignas(sizeof(T) * count) Pack {
  T values[count];
};
/// The packs of V values.
template <class T, int V>
using PackOf = Pack<T, std::min(V, lanes_of_access<T>)>;

/// How many of V values there are if `left` are left of a row.
template <int V>
__device__ int lanes_left(std::int64_t left) {
  return left >= V ? V : left > 0 ? static_cast<int>(left) : 0;
}

/// values = the first `count` of V values `from`, in the math type; zeros follow. `packed`: V values are aligned.
template <int V, class T>
__device__ void load_values(const T* from, int count, bool packed, Math<T> (&values)[V]) {
  if (packed && count == V) {
    constexpr int size = std::min(V, lanes_of_access<T>);
#pragma unroll
    for (int first = 0; first < V; first += size) {
      const PackOf<T, V> pack = *reinterpret_cast<const PackOf<T, V>*>(from + first);
#pragma unroll
      for (int i = 0; i < size; ++i) values[first + i] = widened(pack.values[i]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < V; ++i) values[i] = i < count ? widened(from[i]) : Math<T>{0};
}

/// Stores the first `count` of V values, rounded to T, likewise.
template <int V, class T>
__device__ void store_values(const Math<T> (&values)[V], int count, bool packed, T* to) {
  if (packed && count == V) {
    constexpr int size = std::min(V, lanes_of_access<T>);
#pragma unroll
    for (int first = 0; first < V; first += size) {
      PackOf<T, V> pack;
#pragma unroll
      for (int i = 0; i < size; ++i) narrow(values[first + i], pack.values[i]);
      *reinterpret_cast<PackOf<T, V>*>(to + first) = pack;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if (i < count) narrow(values[i], to[i]);
  }
}

/// Whether packs of `lanes` values are aligned in rows that begin `stride` values apart at each of these addresses.
inline bool packable(std::int64_t stride, int lanes, std::initializer_list<const void*> addresses) {
  return stride % lanes == 0 && std::all_of(addresses.begin(), addresses.end(), [](const void* address) {
           return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
         });
}

}  // namespace lockstep::cuda
