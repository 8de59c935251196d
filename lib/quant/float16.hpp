// fp16 as other people's files hold it: read, never computed with.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

/// The value of an fp16; exact.
float from_f16(std::uint16_t bits);

/// Element by element; spans of equal length.
void from_f16(std::span<const std::uint16_t> bits, std::span<float> values);

}  // namespace lockstep
