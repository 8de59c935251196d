// Text with the semantics of Python's strings, stored as UTF-8: a sequence of code points. A byte that is not part of
// one counts as a code point. Positions are bytes unless they are called code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::jinja {

/// The code point at `at`; moves `at` past it.
char32_t next_point(std::string_view text, std::size_t& at);
void append_point(std::string& text, char32_t point);
bool is_ascii(std::string_view text);
std::size_t count_points(std::string_view text);
/// The byte at which code point `index` begins; the end of the text if it has fewer.
std::size_t byte_of_point(std::string_view text, std::size_t index);
/// The code points, each as its bytes.
std::vector<std::string_view> points_of(std::string_view text);

std::uint16_t traits_of(char32_t point);  // bits of CharacterTrait
bool is_white_space(char32_t point);      // str.isspace

// str.strip, lstrip and rstrip: of white space, or of the code points in `these`.
enum class StripSide : std::uint8_t { both, left, right };
std::string_view stripped(std::string_view text, StripSide side);
std::string_view stripped(std::string_view text, StripSide side, std::string_view these);

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string to_title(std::string_view text);  // str.title; the filter `title` differs
std::string to_folded(std::string_view text);
std::string capitalized(std::string_view text);
std::string with_cases_swapped(std::string_view text);

/// str.split and str.rsplit at white space, at most `most` times; a negative `most` means no limit.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most, bool from_right);
/// str.split and str.rsplit at a separator, which is not empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t most,
                                       bool from_right);
/// str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// str.replace, at most `most` times; a negative `most` means no limit.
std::string replaced(std::string_view text, std::string_view old, std::string_view by, std::int64_t most);
/// str.count.
std::int64_t count_of(std::string_view text, std::string_view part);

/// Methods such as str.isdigit: whether the text is not empty and all its code points have one of `traits`.
bool all_have(std::string_view text, std::uint16_t traits);
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_title(std::string_view text);

/// Python's repr and str of a float: "1.0", "1e+16", "nan".
std::string number_text(double number);
/// Appends Python's repr of a string, with quotes.
void append_repr(std::string& out, std::string_view text);

}  // namespace lockstep::jinja
