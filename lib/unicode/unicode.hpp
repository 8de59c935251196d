// Properties of code points and normal forms of text. Answers agree with the tokenizers library, whose parts use
// different versions of Unicode. The tables: unicode/unicode_tables.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// Unicode's general categories, in the order of the tables.
// clang-format off
enum class Category : std::uint8_t {
  Cn, Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Co
};
// clang-format on

/// Further properties of a code point.
enum class CodePointFlag : std::uint16_t {
  newer = 1 << 5,            // assigned after Unicode 14, which PCRE2 of Debian 12 knows
  numeric = 1 << 6,          // a digit for Digits
  word = 1 << 7,             // \w of Whitespace and single_word
  punctuation = 1 << 8,      // punctuation for Punctuation and BertPreTokenizer
  control = 1 << 9,          // removed by BertNormalizer's clean_text; so are U+0000 and U+FFFD
  accent = 1 << 10,          // removed by BertNormalizer's strip_accents
  combining_mark = 1 << 11,  // removed by StripAccents
};

Category category_of(char32_t c);
bool has(char32_t c, CodePointFlag flag);

/// The code points that have the flag and a category whose name begins with `category` ("L", "Lu", "" for all), written
/// as members of a class in a regular expression.
std::string class_members(std::string_view category, CodePointFlag flag);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normalized(std::string_view text, NormalForm form);
/// The opening (unicode/text_opening.hpp) of the normal form of a text that has the given opening.
std::size_t normalized_opening(std::string_view text, NormalForm form, std::size_t opening);

std::string lower_case(std::string_view text);

}  // namespace lockstep
