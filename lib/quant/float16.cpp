#include "quant/float16.hpp"

#include "base/error.hpp"

namespace lockstep {

void from_f16(std::span<const std::uint16_t> bits, std::span<float> values) {
  invariant(values.size() == bits.size(), "fp16 conversion of spans of equal length");
  for (std::size_t i = 0; i < bits.size(); ++i) values[i] = from_f16(bits[i]);
}

}  // namespace lockstep
