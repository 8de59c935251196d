#include "quant/float16.hpp"

#include "base/error.hpp"

namespace lockstep {

void from_f16(std::span<const std::uint16_t> bits, std::span<float> values) {
  invariant(values.size() == bits.size(), "source and destination of an fp16 conversion have equal length");
  for (std::size_t i = 0; i < bits.size(); ++i) values[i] = from_f16(bits[i]);
}

}  // namespace lockstep
