// A hash of long content that is put together from parts of it, wherever it is cut: several ranks read or write it. Of
// content at hand: base/hash.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {

/// Of the part that begins at byte `offset` of the content, below 2^61 - 1; 0 of nothing.
std::uint64_t content_sum(std::span<const std::byte> part, std::uint64_t offset);
std::uint64_t content_sum(std::string_view part, std::uint64_t offset);
/// Of two parts together, in any order.
std::uint64_t add_content_sums(std::uint64_t a, std::uint64_t b);

}  // namespace lockstep
