// SHA-1 and SHA-256 (FIPS 180-4). The hub names small files by git's SHA-1 and large files by SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

enum class ShaKind { sha1, sha256 };

class Sha {
 public:
  explicit Sha(ShaKind kind);
  void add(std::span<const std::byte> bytes);
  std::string hex();  // 40 or 64 digits; ends the hash

 private:
  void compress(const std::byte* block);
  ShaKind kind_;
  std::vector<std::uint32_t> state_;
  std::array<std::byte, 64> held_{};
  std::size_t held_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace lockstep
