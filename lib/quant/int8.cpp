#include "quant/int8.hpp"

#include "base/error.hpp"
#include "quant/bfloat16.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

std::uint16_t int8_scale(std::span<const float> channel) {
  float largest = 0;
  for (const float value : channel) largest = std::max(largest, std::abs(value));
  const std::uint16_t scale = to_bf16(largest / 127.5f);
  return scale == 0 ? to_bf16(0x1p-7f) : scale;
}

void int8_encode(std::span<const float> channel, std::uint16_t scale, std::span<std::int8_t> codes) {
  invariant(codes.size() == channel.size(), "there is one int8 code per value");
  constexpr float to_integer = 0x1.8p23f;  // adding it leaves no bits for a fraction: rounds to even without a call
  const float step = from_bf16(scale);
  for (std::size_t i = 0; i < channel.size(); ++i) {
    const float clamped = std::clamp(channel[i] / step, -128.0f, 127.0f);
    codes[i] = static_cast<std::int8_t>((clamped + to_integer) - to_integer);
  }
}

void int8_decode(std::span<const std::int8_t> codes, std::uint16_t scale, std::span<float> values) {
  invariant(codes.size() == values.size(), "there is one value per int8 code");
  const float step = from_bf16(scale);
  for (std::size_t i = 0; i < codes.size(); ++i) values[i] = static_cast<float>(codes[i]) * step;
}

void int8_pack(std::span<const std::int8_t> codes, std::span<std::uint32_t> words) {
  invariant(words.size() == int8_packed_words(codes.size()), "there is one word per four int8 codes");
  std::fill(words.begin(), words.end(), 0u);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    words[i / 4] |= static_cast<std::uint32_t>(codes[i] + 128) << (8 * (i % 4));
  }
}

}  // namespace lockstep
