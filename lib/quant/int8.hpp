// Symmetric int8 codec with one bf16 scale per channel (a row of an (out, in) weight). Fake quantisation in training
// and the export share it. Numerics are in fp32. The scale is absmax/127.5, first rounded to bf16. Codes are
// clamp(round_to_even(w / scale), -128, 127) with that rounded scale. A decoded value is code · scale, exact in fp32,
// and rounded to bf16 once if the reader computes in bf16. Tensor names and files: artifact/compressed_tensors.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// Returns the scale (bf16 bits) of one channel. A channel of zeros gets 2⁻⁷, the epsilon of bf16, as in
/// compressed-tensors. Values must be finite.
std::uint16_t int8_scale(std::span<const float> channel);

/// Computes the codes of one channel with its scale; `codes` is as long as `channel`.
void int8_encode(std::span<const float> channel, std::uint16_t scale, std::span<std::int8_t> codes);

/// code · scale, exact in fp32.
void int8_decode(std::span<const std::int8_t> codes, std::uint16_t scale, std::span<float> values);

/// Words that hold `count` codes: ⌈count / 4⌉.
constexpr std::size_t int8_packed_words(std::size_t count) { return (count + 3) / 4; }

/// Packs one row in the pack-quantized format: code + 128, four to a word, the first in the lowest byte, the rest of
/// the last word filled with zero bits. `words` has int8_packed_words(codes.size()) elements.
void int8_pack(std::span<const std::int8_t> codes, std::span<std::uint32_t> words);

}  // namespace lockstep
