// A hash of a long text that is put together from parts of it, wherever it is cut: parts are read by several ranks. Of
// a text at hand: base/hash.hpp.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// Of the part of a text that begins at byte `offset`, below 2^61 - 1.
std::uint64_t content_sum(std::string_view part, std::uint64_t offset);
/// Of two parts together, in any order.
std::uint64_t add_content_sums(std::uint64_t a, std::uint64_t b);

}  // namespace lockstep
