// Bytes of a TensorBoard event file: framed records with masked CRC-32C, each an Event message. report/record_sink.cpp
// decides which values are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// CRC-32C (Castagnoli). Local.
std::uint32_t crc32c(std::string_view bytes);

/// One framed record: length, its masked checksum, the payload, its masked checksum.
std::string framed(std::string_view payload);

// Events, not framed. `wall_s` is Unix time in seconds.
std::string version_event(double wall_s);
std::string scalar_event(double wall_s, std::int64_t step, std::string_view tag, float value);
std::string text_event(double wall_s, std::int64_t step, std::string_view tag, std::string_view text);

}  // namespace lockstep
