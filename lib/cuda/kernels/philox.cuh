// The random bits of dropout on the device: Philox 4x32-10 (base/random.hpp), and the factors that dropout draws from
// it (tensor/kernels/dropout_kernel.hpp).
#pragma once

#include "tensor/kernels/dropout_kernel.hpp"

#include <cstdint>

namespace lockstep::cuda {

struct PhiloxBlock {
  std::uint32_t words[4];
};

__device__ inline PhiloxBlock philox_block(PhiloxBlock counter, std::uint32_t low, std::uint32_t high) {
  std::uint32_t a = counter.words[0], b = counter.words[1], c = counter.words[2], d = counter.words[3];
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t next_a = __umulhi(c, 0xCD9E8D57u) ^ b ^ low, next_c = __umulhi(a, 0xD2511F53u) ^ d ^ high;
    b = c * 0xCD9E8D57u;
    d = a * 0xD2511F53u;
    a = next_a;
    c = next_c;
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

/// A mask in the registers of a kernel.
struct DrawnMask {
  std::uint32_t low = 0, high = 0, threshold = 0;
  double scale = 1;

  /// Bit i: whether column 8 · block + i of a row is kept. `place` is not negative.
  __device__ std::uint32_t kept(Place place, std::int64_t head, std::int64_t block) const {
    const PhiloxBlock drawn =
        philox_block({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(place),
                       static_cast<std::uint32_t>(place >> 32), static_cast<std::uint32_t>(head)}},
                     low, high);
    std::uint32_t bits = 0;
#pragma unroll
    for (int half = 0; half < 8; ++half)
      bits |= static_cast<std::uint32_t>((drawn.words[half / 2] >> (16 * (half % 2)) & 0xffffu) >= threshold) << half;
    return bits;
  }
};

inline DrawnMask drawn_mask(const DropoutMask& mask) {
  return {mask.key[0], mask.key[1], mask.threshold, mask.scale()};
}

}  // namespace lockstep::cuda
