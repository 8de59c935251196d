// Which attention an NVIDIA GPU computes with, and the memory that LibTorch's flash attention takes. Pure. The calls:
// cuda/flash_attention.hpp.
#pragma once

#include "architecture/attention_scratch.hpp"
#include "architecture/attention_shape.hpp"
#include "layout/dtype.hpp"

#include <cstdint>
#include <string_view>

namespace lockstep {

/// GpuAttention says who computes: LibTorch's flash attention for sequences of different lengths, or the plug-in's own
/// kernel, which takes all types, with dropout.
enum class GpuAttention : std::uint8_t { flash, own };

/// The facts on which the choice depends.
struct AttentionUse {
  DType compute = DType::f32;
  std::int64_t head_size = 0;
  bool has_dropout = false;  // of probabilities
  bool is_ring = false;      // its keys go around a ring of ranks
};

struct GpuAttentionChoice {
  GpuAttention attention = GpuAttention::own;
  std::string_view reason = {};  // for the own kernel, for people: "dropout"; empty: flash
};

GpuAttentionChoice choose_gpu_attention(const AttentionUse& use);

/// A call of flash attention, as far as its memory depends on it.
struct FlashCall {
  std::int64_t rows = 0;                                // N
  std::int64_t fewest_segments = 1, most_segments = 1;  // of these rows
  int multiprocessors = 0;                              // of the GPU
  bool rotates = false;                                 // queries and keys have rotary positions
  bool has_output = false;                              // backward has the output of forward
};
/// Plans assume that documents have as many tokens on average, or more.
constexpr std::int64_t planned_document = 256;

/// The most memory of a call besides its results, in LibTorch 2.11 with deterministic sums: queries and keys after the
/// rotation, results before they are put in place, and in backward fp32 sums of the gradients of queries. LibTorch
/// makes the sums once for each of ⌈multiprocessors / (segments · heads)⌉ blocks that add to them in turn.
AttentionScratch flash_scratch(const AttentionShape& shape, const FlashCall& call);

}  // namespace lockstep
