// Tables of cos and sin for rotary positions. The frequencies: architecture/rope_frequencies.hpp.
#pragma once

#include "architecture/model_config.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Rotary embeddings (half-split: elements i and i + D/2 rotate together). The table grows with the largest position
/// asked for, and is rebuilt when another length has other frequencies.
class RotaryTable {
 public:
  /// type: fp32 or fp64, of the table.
  RotaryTable(const Rope& rope, std::int64_t head_size, at::ScalarType type)
      : rope_(rope), head_size_(head_size), type_(type) {}
  /// Returns cos, then sin, of position · frequency, times the attention factor: (2, ≥ positions, D/2). `length` is the
  /// length of whole samples.
  at::Tensor table_for(std::int64_t length, std::int64_t positions);
  /// Bytes of a first table for `positions` positions, with numbers of `number_bytes` bytes.
  static std::int64_t bytes(std::int64_t positions, std::int64_t head_size, std::int64_t number_bytes) {
    return std::max(positions, least_positions) * head_size * number_bytes;
  }

 private:
  static constexpr std::int64_t least_positions = 64;
  Rope rope_;
  std::int64_t head_size_;
  at::ScalarType type_;
  at::Tensor table_;
  std::int64_t length_ = 0;  // the length that the table's frequencies belong to
};

}  // namespace lockstep
