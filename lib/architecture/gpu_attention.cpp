#include "architecture/gpu_attention.hpp"

#include "base/rounding.hpp"

namespace lockstep {

GpuAttentionChoice choose_gpu_attention(const AttentionUse& use) {
  constexpr std::int64_t granule = 8, most = 256;  // of the sizes of heads that flash attention takes
  const auto own = [](std::string_view reason) { return GpuAttentionChoice{GpuAttention::own, reason}; };
  if (use.compute == DType::f32) return own("fp32");
  if (use.compute == DType::f64) return own("fp64");
  if (use.is_ring) return own("parallel.ring");
  if (use.has_dropout) return own("dropout");
  if (use.head_size % granule != 0) return own("the size of heads is not a multiple of 8");
  if (use.head_size > most) return own("heads have more than 256 elements");
  return {GpuAttention::flash, {}};
}

namespace {

constexpr std::int64_t brief_bytes = 2, wide_bytes = 4;  // of bf16 and fp16, and of fp32
constexpr std::int64_t padding = 128;                    // rows between the sums of two segments

/// The most rows of sums, over the copies of them, for any number of segments between the fewest and the most.
std::int64_t most_rows_of_sums(std::int64_t heads, const FlashCall& call) {
  if (call.most_segments == 0) return 0;
  const auto copies_of = [&](std::int64_t segments) {
    return ceil_div(std::int64_t{call.multiprocessors}, segments * heads);
  };
  const auto rows_of = [&](std::int64_t segments) { return copies_of(segments) * (call.rows + padding * segments); };
  std::int64_t most = std::max(rows_of(call.fewest_segments), rows_of(call.most_segments));
  // Between them, the most segments that have as many copies.
  for (std::int64_t copies = copies_of(call.fewest_segments); copies > 1; --copies) {
    const std::int64_t segments = (call.multiprocessors - 1) / ((copies - 1) * heads);
    if (segments >= call.fewest_segments && segments <= call.most_segments) most = std::max(most, rows_of(segments));
  }
  return most;
}

}  // namespace

AttentionScratch flash_scratch(const AttentionShape& shape, const FlashCall& call) {
  const std::int64_t output = call.rows * shape.heads * shape.head_size * brief_bytes;
  const std::int64_t log_sums = call.rows * shape.heads * wide_bytes, qkv = call.rows * shape.width() * brief_bytes;
  // Gradients of grouped keys and values are made for each head of queries, and then added.
  const std::int64_t of_heads = shape.kv_heads == shape.heads ? 0 : 2 * output;
  const std::int64_t columns =
      rounded_up(shape.head_size, shape.head_size <= padding ? std::int64_t{32} : std::int64_t{64});
  const std::int64_t sums = most_rows_of_sums(shape.heads, call) * shape.heads * columns * wide_bytes;
  const std::int64_t products = (call.rows + padding * call.most_segments) * shape.heads * wide_bytes;
  return {.forward = output + log_sums + (call.rotates ? qkv : 0),
          .backward = (call.has_output ? 0 : output) + log_sums + qkv + of_heads + sums + products};
}

}  // namespace lockstep
