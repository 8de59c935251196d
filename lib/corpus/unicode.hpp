// What a tokenizer asks of code points and the normal forms of text. It answers as the tokenizers library does, whose
// parts know different versions of Unicode; the tables: corpus/unicode_tables.hpp.
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

/// More that is asked of a code point.
enum class CodePointFlag : std::uint16_t {
  newer = 1 << 5,            // assigned after Unicode 14, which PCRE2 of Debian 12 knows
  numeric = 1 << 6,          // what Digits takes for one
  word = 1 << 7,             // \w of Whitespace and single_word
  punctuation = 1 << 8,      // what Punctuation and BertPreTokenizer take for it
  control = 1 << 9,          // what BertNormalizer cleans away, as also U+0000 and U+FFFD
  accent = 1 << 10,          // what BertNormalizer strips as one
  combining_mark = 1 << 11,  // what StripAccents strips
};

Category category_of(char32_t c);
bool has(char32_t c, CodePointFlag flag);

/// The members of a class of characters, in the syntax of regular expressions, that have the flag and a category whose
/// name begins with `category`: "L", "Lu", "" for all.
std::string class_members(std::string_view category, CodePointFlag flag);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normalized(std::string_view text, NormalForm form);
/// The opening of the normal form (corpus/text_opening.hpp) of a text with this one.
std::size_t normalized_opening(std::string_view text, NormalForm form, std::size_t opening);

std::string lower_case(std::string_view text);

}  // namespace lockstep
