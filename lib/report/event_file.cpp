#include "report/event_file.hpp"

#include "report/wire_format.hpp"

#include <array>

namespace lockstep {

namespace {

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? (value >> 1) ^ 0x82F63B78U : value >> 1;
    table[byte] = value;
  }
  return table;
}();

std::string masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return little_endian(((crc >> 15) | (crc << 17)) + 0xA282EAD8U, 4);
}

// Field numbers of tensorflow's event.proto, summary.proto, tensor.proto.
std::string event(double wall_s, std::int64_t step, const std::string& value) {
  return double_field(1, wall_s) + integer_field(2, static_cast<std::uint64_t>(step)) +
         bytes_field(5, bytes_field(1, value));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) crc = crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string framed(std::string_view payload) {
  const std::string length = little_endian(payload.size(), 8);
  return length + masked_crc(length) + std::string(payload) + masked_crc(payload);
}

std::string version_event(double wall_s) { return double_field(1, wall_s) + bytes_field(3, "brain.Event:2"); }

std::string scalar_event(double wall_s, std::int64_t step, std::string_view tag, float value) {
  return event(wall_s, step, bytes_field(1, tag) + float_field(2, value));
}

std::string text_event(double wall_s, std::int64_t step, std::string_view tag, std::string_view text) {
  constexpr std::uint64_t string_type = 7;
  const std::string one_element = bytes_field(2, integer_field(1, 1));  // TensorShapeProto: dim { size: 1 }
  const std::string tensor = integer_field(1, string_type) + bytes_field(2, one_element) + bytes_field(8, text);
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));  // plugin_data { plugin_name: "text" }
  return event(wall_s, step, bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata));
}

}  // namespace lockstep
