// Functions for text: splitting, suggestions for misspelt names, numbers with units as people write and read them.
// Counts and lists in messages: base/words.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
std::string lower_ascii(std::string_view text);  // other bytes than A to Z stay

/// Returns the candidate nearest to `word` by edit distance, if it is near enough to be a misspelling.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

std::string human_bytes(std::uint64_t bytes);  // "412 MiB", "3.1 KiB", "17 B"
std::string human_count(double count);         // "124.4 M", "1.2 k", "65"
std::string human_seconds(double seconds);     // "2 h 03 min", "4.1 s", "38 ms"

/// Parses a byte count such as "64MiB", "2 GiB", "512"; returns nothing for other text.
std::optional<std::uint64_t> parse_bytes(std::string_view text);
/// Parses a duration such as "90", "90s", "15m", "2h", "1h30m" into seconds; returns nothing for other text.
std::optional<double> parse_seconds(std::string_view text);

/// Returns the offset of the first byte that is not valid UTF-8; nothing if all of the text is valid.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// Returns the text for a terminal or a log: control characters except newlines and tabs, and bytes that are no UTF-8,
/// become U+FFFD.
std::string printable(std::string_view text);

}  // namespace lockstep
