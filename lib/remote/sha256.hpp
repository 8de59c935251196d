// SHA-256 (FIPS 180-4), by which the hub names large files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  std::string hex();  // 64 digits; ends the hash

 private:
  void compress(const std::byte* block);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> held_{};
  std::size_t held_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace lockstep
