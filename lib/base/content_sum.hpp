// A hash of long content that is combined from the hashes of its parts, at any cuts, because several ranks read or
// write it. The hash of content in memory: base/hash.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {

/// Returns the hash of the part that begins at byte `offset` of the content, offset < 2^61 - 1; 0 for an empty part.
std::uint64_t content_sum(std::span<const std::byte> part, std::uint64_t offset);
std::uint64_t content_sum(std::string_view part, std::uint64_t offset);
/// Returns the hash of two parts together, in any order.
std::uint64_t add_content_sums(std::uint64_t a, std::uint64_t b);

}  // namespace lockstep
