// Ranges that options share.
#pragma once

namespace lockstep {

inline constexpr double most_count = 2147483647;  // of what is counted: fits an int, a product of two a 64-bit integer
inline constexpr double most_threads = 4096;      // of a rank

}  // namespace lockstep
