// Limits that several options share.
#pragma once

namespace lockstep {

inline constexpr double most_count = 2147483647;  // of counts: fits an int; a product of two fits 64 bits
inline constexpr double most_threads = 4096;      // per rank

}  // namespace lockstep
