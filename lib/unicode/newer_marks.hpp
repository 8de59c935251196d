// Combining marks of Unicode versions after 14.0, which join the character before them into one grapheme. PCRE2 may not
// know them yet. The list was obtained from the tokenizers library, in the version that scripts/requirements-test.txt
// names.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace lockstep {

inline constexpr std::array<std::pair<char32_t, char32_t>, 31> newer_marks{
    {// first and last
     {0x897, 0x897},     {0xcf3, 0xcf3},     {0xece, 0xece},     {0x1acf, 0x1add},   {0x1ae0, 0x1aeb},
     {0x10d69, 0x10d6d}, {0x10efa, 0x10eff}, {0x11241, 0x11241}, {0x113b8, 0x113c0}, {0x113c2, 0x113c2},
     {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2},
     {0x11b60, 0x11b67}, {0x11f00, 0x11f01}, {0x11f03, 0x11f03}, {0x11f34, 0x11f3a}, {0x11f3e, 0x11f42},
     {0x11f5a, 0x11f5a}, {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611e, 0x1612f}, {0x1e08f, 0x1e08f},
     {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}, {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef},
     {0x1e6f5, 0x1e6f5}}};

inline bool is_newer_mark(char32_t c) {
  const auto after = std::ranges::upper_bound(newer_marks, c, {}, &std::pair<char32_t, char32_t>::first);
  return after != newer_marks.begin() && c <= std::prev(after)->second;
}

}  // namespace lockstep
