// Causal self-attention over the segments of a batch, for autograd.
#pragma once

#include "tensor/kernels/attention_kernel.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Rotary embeddings (half-split: elements i and i + D/2 turn together), as a table that grows with the positions asked
/// for.
class RotaryTable {
 public:
  /// type: fp32 or fp64, of the table.
  RotaryTable(double theta, std::int64_t head_size, at::ScalarType type)
      : theta_(theta), head_size_(head_size), type_(type) {}
  /// cos, then sin, of position · θ^(−2i/D): (2, ≥ positions, D/2).
  at::Tensor upto(std::int64_t positions);
  /// Of a first table for so many positions, with numbers of so many bytes.
  static std::int64_t bytes(std::int64_t positions, std::int64_t head_size, std::int64_t number_bytes) {
    return std::max(positions, least_positions) * head_size * number_bytes;
  }

 private:
  static constexpr std::int64_t least_positions = 64;
  double theta_;
  std::int64_t head_size_;
  at::ScalarType type_;
  at::Tensor table_;
};

/// qkv (N, (H + 2·KV)·D) compute type → (N, H·D). segments int64 (S + 1), positions int32 (N); `rotary` is an undefined
/// tensor or RotaryTable::upto(largest position + 1).
at::Tensor causal_attention(const at::Tensor& qkv, const AttentionShape& shape, const at::Tensor& segments,
                            const at::Tensor& positions, const at::Tensor& rotary);

}  // namespace lockstep
