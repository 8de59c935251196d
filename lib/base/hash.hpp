// XXH3-128 hashes of the content of blocks, files and configurations. They detect damage, not tampering. Fingerprints
// of tensors, which do not depend on the layout: store/fingerprint.hpp.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

std::string to_hex(const Hash128& hash);         // 32 lower-case digits, high half first
Hash128 hash_from_hex(std::string_view digits);  // throws Error(input) unless 32 hex digits

/// StreamHash hashes a stream of pieces: the digest equals hash128 of their concatenation.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(StreamHash&&) noexcept;
  StreamHash& operator=(StreamHash&&) noexcept;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  Hash128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
