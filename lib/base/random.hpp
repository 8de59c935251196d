// Counter-based random numbers: a value is a function of (seed, stream, index), so no layout, thread or order changes
// it. Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// Returns 32 unpredictable hexadecimal digits. This is the only function here whose result differs from run to run.
/// Throws Error(storage).
std::string make_uuid();

/// Returns the 128 random bits for a counter and a key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// RandomStream is a stream of random values addressed by a global index. Streams of other names or seeds are
/// independent.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);
  std::uint64_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // in [0, 1), 53 bits
  double normal(std::uint64_t index) const;   // mean 0, deviation 1 (Box-Muller on the pair at index)
  /// Returns a value in [0, bound), unbiased to 2^-64 by multiplication; bound > 0.
  std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;
  std::array<std::uint32_t, 2> key_{};
  std::array<std::uint32_t, 2> salt_{};
};

/// Permutation is a permutation of [0, size), computed value by value without a table: a Feistel network with cycle
/// walking.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::string_view name);
  std::uint64_t operator()(std::uint64_t index) const;  // index < size

 private:
  std::uint64_t size_ = 0;
  int half_bits_ = 1;
  std::array<std::uint32_t, 2> key_{};
  std::array<std::uint32_t, 2> salt_{};
};

}  // namespace lockstep
