// The memory that decoding a zstd frame takes: its window, which `zstd --long=31` makes as large as 2 GiB.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

constexpr int most_zstd_window_log = 31;      // as the zstd program takes with --long=31 or --memory
constexpr std::size_t most_zstd_header = 18;  // bytes of a frame in which its window is told

/// Bytes of the window of the frame that begins with these bytes, as RFC 8878 3.1.1.1 tells it; 0 where no such frame
/// begins or the bytes are too few. Pure.
std::uint64_t zstd_window(std::span<const char> frame);

/// Throws Error(input) naming the file for a window above the bound, Error(resources) where this process cannot have
/// the memory. Local.
void require_zstd_window(const std::string& file, std::uint64_t window);

/// The Error(resources) for a window that could not be allocated.
[[noreturn]] void refuse_zstd_window(const std::string& file, std::uint64_t window, const std::string& reason);

}  // namespace lockstep
