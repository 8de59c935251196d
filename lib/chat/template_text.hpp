// Text as Python's strings have it: code points over UTF-8, of which each byte that is none of a code point counts as
// one. Positions are bytes unless they are said to be code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::jinja {

/// The code point at `at`, which moves behind it.
char32_t next_point(std::string_view text, std::size_t& at);
void append_point(std::string& text, char32_t point);
bool is_ascii(std::string_view text);
std::size_t count_points(std::string_view text);
/// The byte at which code point `index` begins; the end if there are not as many.
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
std::string to_title(std::string_view text);  // str.title, of which the filter `title` is another
std::string to_folded(std::string_view text);
std::string capitalized(std::string_view text);
std::string with_cases_swapped(std::string_view text);

/// str.split and str.rsplit at white space, at most `most` times; without bound if it is negative.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most, bool from_right);
/// The same at a separator that is not empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t most,
                                       bool from_right);
/// str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// str.replace, at most `most` times; without bound if it is negative.
std::string replaced(std::string_view text, std::string_view old, std::string_view by, std::int64_t most);
/// str.count.
std::int64_t count_of(std::string_view text, std::string_view part);

/// Whether a method such as str.isdigit holds: all code points have one of `traits`, and there is one.
bool all_have(std::string_view text, std::uint16_t traits);
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_title(std::string_view text);

/// A float as Python's repr and str write it: "1.0", "1e+16", "nan".
std::string number_text(double number);
/// Text as Python's repr writes it, in quotes.
void append_repr(std::string& out, std::string_view text);

}  // namespace lockstep::jinja
