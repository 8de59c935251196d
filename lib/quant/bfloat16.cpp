#include "quant/bfloat16.hpp"

#include "base/error.hpp"

namespace lockstep {

void to_bf16(std::span<const float> values, std::span<std::uint16_t> bits) {
  invariant(values.size() == bits.size(), "source and destination of a bf16 conversion have equal length");
  for (std::size_t i = 0; i < values.size(); ++i) bits[i] = to_bf16(values[i]);
}

void from_bf16(std::span<const std::uint16_t> bits, std::span<float> values) {
  invariant(values.size() == bits.size(), "source and destination of a bf16 conversion have equal length");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_bf16(bits[i]);
}

}  // namespace lockstep
