// The inputs of blocks: the part of a batch that a rank computes, as tensors.
#pragma once

#include "architecture/model_config.hpp"
#include "data/batch.hpp"
#include "layout/sequence.hpp"
#include "model/text_pass.hpp"
#include "tensor/functions/loss.hpp"
#include "tensor/functions/ring_attention.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

/// The values on which dropout of a training step depends, besides the positions of elements.
struct DropoutDraw {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

/// The inputs of blocks from a batch, as tensors on the device that saved state may refer to: N rows, one for each
/// token. With context parallelism N counts the rows of this rank, and attention sees A rows, of all ranks along
/// ulysses. Otherwise both are B·T.
struct BatchTensors {
  std::int64_t samples = 0;               // B
  std::int64_t length = 0;                // T
  at::Tensor tokens;                      // (N) int32
  at::Tensor labels;                      // (N) int32, ignored_label where the label does not count
  at::Tensor positions;                   // (N) int32
  at::Tensor segments;                    // int64: starts of attention segments in the A rows, then A
  std::int64_t longest_segment = 0;       // rows of the longest of these segments
  at::Tensor attended_positions;          // (A) int32
  RingSegments ring;                      // used instead of both with ring attention
  std::int64_t largest_position_end = 0;  // largest position + 1
  std::int64_t valid_tokens = 0;          // labels that count
  StepLoss loss = {};                     // used by the head
  // (N) int64: a Place (tensor/kernels/dropout_kernel.hpp) for each token; undefined: no dropout.
  at::Tensor places;
  at::Tensor attended_places;  // (A) int64
  DropoutDraw draw = {};       // if there is dropout
  at::Tensor row_samples;      // (N) int32: sample of each token, −1 for padding; if there are experts
  // (N + 1): how many of the rows before each one are no padding; if there are experts.
  std::vector<std::int64_t> routed_before = {};
  bool counts_choices = false;  // the forward counts tokens per expert
  // Of a pass over texts: int32 (S), the place of the text of each segment in the caches. Undefined: another batch.
  at::Tensor text_slots;
  std::int64_t text_length = 0;  // decides the frequencies of rotary positions in such a pass
  // Factor of the gradient of the experts' auxiliary loss; not set: there is none.
  std::optional<double> aux_scale = {};
  // Pinned host memory that the copy to the device reads; null on the CPU.
  std::shared_ptr<std::byte> pinned = {};
  std::int64_t rows() const { return tokens.numel(); }
  /// How many of rows [begin, end) are no padding; rows beyond N are.
  std::int64_t routed_rows(std::int64_t begin, std::int64_t end) const {
    const auto at = [&](std::int64_t row) { return routed_before[static_cast<std::size_t>(std::min(row, rows()))]; };
    return at(end) - at(begin);
  }
};

/// Copies the rows of a pass over texts to the device of this rank. Throws as below.
BatchTensors to_tensors(const TextPass& pass, const ModelConfig& config);

/// Copies the part of `batch` for the rank at `place` to its device, in one copy that need not have ended. Padding
/// after the last row has no label and is a segment of its own. With a `draw` (in a training step) dropout is active as
/// configured, and tokens per expert are counted. Throws Error(input) for a token or label outside the vocabulary or a
/// position outside the model's range, naming it.
BatchTensors to_tensors(const Batch& batch, const ModelConfig& config, const SequencePlace& place = {},
                        const std::optional<DropoutDraw>& draw = {});

}  // namespace lockstep
