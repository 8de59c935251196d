// The cos and sin that attention turns queries and keys by.
#pragma once

#include "exchange/rope.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Rotary embeddings (half-split: elements i and i + D/2 turn together), as a table that grows with the positions asked
/// for and begins anew where another length has other frequencies.
class RotaryTable {
 public:
  /// type: fp32 or fp64, of the table.
  RotaryTable(const Rope& rope, std::int64_t head_size, at::ScalarType type)
      : rope_(rope), head_size_(head_size), type_(type) {}
  /// cos, then sin, of position · frequency, times the attention factor: (2, ≥ positions, D/2). `length` is that of
  /// whole samples.
  at::Tensor table_for(std::int64_t length, std::int64_t positions);
  /// Of a first table for so many positions, with numbers of so many bytes.
  static std::int64_t bytes(std::int64_t positions, std::int64_t head_size, std::int64_t number_bytes) {
    return std::max(positions, least_positions) * head_size * number_bytes;
  }

 private:
  static constexpr std::int64_t least_positions = 64;
  Rope rope_;
  std::int64_t head_size_;
  at::ScalarType type_;
  at::Tensor table_;
  std::int64_t length_ = 0;  // whose frequencies the table has
};

}  // namespace lockstep
