// Limits the memory that decoding a zstd frame takes: its window, up to 2 GiB with `zstd --long=31`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

constexpr int most_zstd_window_log = 31;      // the limit of the zstd program with --long=31 or --memory
constexpr std::size_t most_zstd_header = 18;  // bytes of a frame that suffice to read its window

/// The size in bytes of the window of the frame that begins with these bytes (RFC 8878, 3.1.1.1). 0 if no frame begins
/// here or the bytes are too few. Pure.
std::uint64_t zstd_window(std::span<const char> frame);

/// Throws Error(input) naming the file if the window is above the limit, Error(resources) if this process cannot have
/// the memory. Local.
void require_zstd_window(const std::string& file, std::uint64_t window);

/// Throws Error(resources) for a window that could not be allocated.
[[noreturn]] void refuse_zstd_window(const std::string& file, std::uint64_t window, const std::string& reason);

}  // namespace lockstep
