// Fingerprints of tensors are sums over elements. They depend on each element's value and its place in the logical
// tensor, not on how the tensor is split, so the fingerprints of pieces add up to that of the tensor on any layout.
// Block hashes, which find damage within a file: store/part_file.hpp.
#pragma once

#include "layout/dtype.hpp"
#include "layout/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Two sums mod 2^64 of (bits + 1) · weight(i) over the elements; i is the row-major index in the logical tensor.
/// Elements of 8 bytes count as two of 4 (low half first). A weight is odd, so one changed element always shows:
/// table[i mod 1024] · factor(i div 1024), where table[j] = the high 32 bits of mix(S + j), factor(b) = mix(S + 2^32 +
/// b), each with the lowest bit set; mix is the finalizer of splitmix64, S = 0x6c6f636b73746570 for the first sum and
/// 0x66696e6765727072 for the second.
struct Fingerprint {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  Fingerprint& operator+=(const Fingerprint& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
  bool operator==(const Fingerprint&) const = default;
};

/// Returns the share of elements [first, first + n) of `box`, in the box's row-major order, in the fingerprint of a
/// logical tensor of shape `global`. `bytes` holds these n elements. With first = 0 and all bytes it is the share of
/// the whole box.
Fingerprint fingerprint(const Shape& global, DType dtype, const Box& box, std::span<const std::byte> bytes,
                        std::int64_t first = 0);

std::string to_hex(const Fingerprint& value);               // 32 digits, `first` in front
Fingerprint fingerprint_from_hex(std::string_view digits);  // throws Error(input)

}  // namespace lockstep
