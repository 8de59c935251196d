// Encodes values for readers of other programs: little-endian numbers, and fields of protocol buffers. A field is a key
// (field number and wire type) and a value; a message is a sequence of fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

std::string little_endian(std::uint64_t value, int bytes);

std::string integer_field(std::uint64_t field, std::uint64_t value);
std::string double_field(std::uint64_t field, double value);
std::string float_field(std::uint64_t field, float value);
std::string bytes_field(std::uint64_t field, std::string_view bytes);  // also texts and messages

}  // namespace lockstep
