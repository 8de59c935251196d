// int8, symmetric, one bf16 scale a channel (a row of an (out, in) weight): the codec that training's fake quantisation
// and the export share. Numerics: fp32; the scale is absmax/127.5 rounded to bf16 first; codes are
// clamp(round_to_even(w / scale), -128, 127) against that rounded scale; a decoded value is code · scale, exact in
// fp32, and rounded to bf16 once where the reader computes in bf16. The names and files around the numbers:
// artifact/compressed_tensors.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// The scale (bf16 bits) of one channel. A channel of zeros gets 2⁻⁷, the epsilon of bf16, as compressed-tensors does.
/// Values must be finite.
std::uint16_t int8_scale(std::span<const float> channel);

/// The codes of one channel against its scale; `codes` is as long as `channel`.
void int8_encode(std::span<const float> channel, std::uint16_t scale, std::span<std::int8_t> codes);

/// code · scale, exact in fp32.
void int8_decode(std::span<const std::int8_t> codes, std::uint16_t scale, std::span<float> values);

/// Words that hold `count` codes: ⌈count / 4⌉.
constexpr std::size_t int8_packed_words(std::size_t count) { return (count + 3) / 4; }

/// One row as pack-quantized stores it: code + 128, four to a word, the first in the lowest byte, the tail filled with
/// zero bits. `words` has int8_packed_words(codes.size()) elements.
void int8_pack(std::span<const std::int8_t> codes, std::span<std::uint32_t> words);

}  // namespace lockstep
