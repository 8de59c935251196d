#include "tokenizer/piece_pattern.hpp"
#include "base/error.hpp"
#include "unicode/unicode.hpp"
#include "unicode/utf8.hpp"

#include <array>
#include <utility>

namespace lockstep {

namespace {

// Classes of characters, as sets with one bit each.
struct CharClass {
  static constexpr std::uint8_t upper = 1;   // Lu Lt
  static constexpr std::uint8_t lower = 2;   // Ll
  static constexpr std::uint8_t other = 4;   // Lm Lo
  static constexpr std::uint8_t accent = 8;  // M
  static constexpr std::uint8_t number = 16;
  static constexpr std::uint8_t space = 32;
  static constexpr std::uint8_t line_end = 64;  // besides `space`
  static constexpr std::uint8_t mark = 128;     // all else

  static constexpr std::uint8_t letters = upper | lower | other;
  static constexpr std::uint8_t marks = mark | accent;
  static constexpr std::uint8_t leading = upper | other | accent;  // of o200k's words: what stands first
  static constexpr std::uint8_t trailing = lower | other | accent;
};

std::uint8_t class_of(char32_t c) {
  if (is_white_space(c)) return c == '\r' || c == '\n' ? CharClass::space | CharClass::line_end : CharClass::space;
  switch (category_of(c)) {
    case Category::Lu:
    case Category::Lt: return CharClass::upper;
    case Category::Ll: return CharClass::lower;
    case Category::Lm:
    case Category::Lo: return CharClass::other;
    case Category::Mn:
    case Category::Mc:
    case Category::Me: return CharClass::accent;
    case Category::Nd:
    case Category::Nl:
    case Category::No: return CharClass::number;
    case Category::Cn:
    case Category::Pc:
    case Category::Pd:
    case Category::Ps:
    case Category::Pe:
    case Category::Pi:
    case Category::Pf:
    case Category::Po:
    case Category::Sm:
    case Category::Sc:
    case Category::Sk:
    case Category::So:
    case Category::Zs:
    case Category::Zl:
    case Category::Zp:
    case Category::Cc:
    case Category::Cf:
    case Category::Co: return CharClass::mark;
  }
  throw Error(ExitCode::bug, "unknown Category of a character");
}

const std::vector<std::uint8_t>& all_classes() {
  static const std::vector<std::uint8_t> classes = [] {
    std::vector<std::uint8_t> found(0x110000);
    for (char32_t c = 0; c < found.size(); ++c) found[c] = class_of(c);
    return found;
  }();
  return classes;
}

// The length of a contraction that `text`, which begins with an apostrophe, begins with: 's 't 'm 'd 're 've 'll; 0 if
// there is none.
std::size_t contraction_length(std::string_view text) {
  if (text.size() < 2) return 0;
  switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return text.size() > 2 && text[2] == 'e' ? 3 : 0;
    case 'l': return text.size() > 2 && text[2] == 'l' ? 3 : 0;
    default: return 0;
  }
}

// The same in letters of any case, of which s has three.
std::size_t any_case_contraction_length(std::string_view text) {
  const auto small = [&](std::size_t i) { return static_cast<char>(text[i] | 0x20); };
  if (text.size() < 2) return 0;
  switch (small(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return text.size() > 2 && small(2) == 'e' ? 3 : 0;
    case 'l': return text.size() > 2 && small(2) == 'l' ? 3 : 0;
    default: return text.substr(1).starts_with("\u017F") ? 3 : 0;
  }
}

constexpr std::array<std::pair<PieceRule, std::string_view>, 4> expressions{{
    {PieceRule::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {PieceRule::llama3, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PieceRule::qwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                       R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PieceRule::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};

}  // namespace

std::string_view expression_of(PieceRule rule) {
  for (const auto& [known, expression] : expressions) {
    if (known == rule) return expression;
  }
  return {};
}

std::optional<PieceRule> piece_rule(std::string_view expression) {
  for (const auto& [rule, known] : expressions) {
    if (known == expression) return rule;
  }
  return std::nullopt;
}

// No piece goes on from another character into a space. Into a line end none of GPT-2 does, and none of the others from
// a letter or number; from marks theirs do.
std::size_t last_piece_cut(PieceRule rule, CutBefore before, std::string_view text) {
  if (rule == PieceRule::whole_text) return 0;
  for (std::size_t cut = text.size(); cut-- > 1;) {
    if (text[cut] != ' ' && (text[cut] != '\n' || before == CutBefore::space)) continue;
    const auto left = last_code_point(text.substr(0, cut));
    if (!left) continue;
    const std::uint8_t kind = all_classes()[*left];
    const bool free = text[cut] == ' ' || rule == PieceRule::gpt2;
    if (free ? (kind & CharClass::space) == 0 : (kind & (CharClass::letters | CharClass::number)) != 0) return cut;
  }
  return 0;
}

PieceCutter::PieceCutter(PieceRule rule) : rule_(rule), classes_(&all_classes()) {}

inline PieceCutter::Classes PieceCutter::take(std::string_view text, std::size_t& at) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte >= 0x80) return (*classes_)[next_code_point(text, at)];
  ++at;
  return (*classes_)[byte];
}

std::size_t PieceCutter::end_of_run(std::string_view text, std::size_t at, Classes of) const {
  while (at < text.size()) {
    std::size_t behind = at;
    if ((take(text, behind) & of) == 0) break;
    at = behind;
  }
  return at;
}

// All white space at the end of the text; elsewhere without its last character, unless that is the only one.
std::size_t PieceCutter::end_of_spaces(std::string_view text, std::size_t begin) const {
  std::size_t last = begin;
  std::size_t at = begin;
  while (at < text.size()) {
    std::size_t behind = at;
    if ((take(text, behind) & CharClass::space) == 0) return last == begin ? at : last;
    last = at;
    at = behind;
  }
  return at;
}

// White space up to its last line end, if it has one.
std::size_t PieceCutter::end_of_lines(std::string_view text, std::size_t begin) const {
  const std::size_t end = end_of_run(text, begin, CharClass::space);
  const std::size_t last = text.substr(begin, end - begin).find_last_of("\r\n");
  return last == std::string_view::npos ? end_of_spaces(text, begin) : begin + last + 1;
}

std::size_t PieceCutter::end_of_numbers(std::string_view text, std::size_t at, int most) const {
  for (; most > 0 && at < text.size(); --most) {
    std::size_t behind = at;
    if ((take(text, behind) & CharClass::number) == 0) break;
    at = behind;
  }
  return at;
}

std::size_t PieceCutter::end_of_gpt2(std::string_view text, std::size_t begin) const {
  if (text[begin] == '\'') {
    if (const std::size_t length = contraction_length(text.substr(begin))) return begin + length;
  }
  std::size_t at = begin;
  Classes first = take(text, at);
  if (text[begin] == ' ' && at < text.size()) first = take(text, at);  // a space goes with what follows
  if ((first & CharClass::space) != 0) return end_of_spaces(text, begin);
  return end_of_run(text, at,
                    (first & CharClass::letters) != 0  ? CharClass::letters
                    : (first & CharClass::number) != 0 ? CharClass::number
                                                       : CharClass::marks);
}

std::size_t PieceCutter::end_of_llama3(std::string_view text, std::size_t begin, int most_numbers) const {
  if (text[begin] == '\'') {
    if (const std::size_t length = any_case_contraction_length(text.substr(begin))) return begin + length;
  }
  std::size_t at = begin;
  const Classes first = take(text, at);
  if ((first & CharClass::letters) != 0) return end_of_run(text, at, CharClass::letters);
  if ((first & CharClass::number) != 0) return end_of_numbers(text, at, most_numbers - 1);
  std::size_t behind = at;
  const Classes second = at < text.size() ? take(text, behind) : Classes{0};
  if ((first & CharClass::line_end) == 0 && (second & CharClass::letters) != 0)
    return end_of_run(text, behind, CharClass::letters);
  if ((first & CharClass::marks) == 0 && (text[begin] != ' ' || (second & CharClass::marks) == 0))
    return end_of_lines(text, begin);
  at = end_of_run(text, at, CharClass::marks);
  return end_of_run(text, at, CharClass::line_end);
}

// A word of o200k goes over from its leading letters to its trailing ones; letters without case and accents are both.
// Returns `begin` if there is none.
std::size_t PieceCutter::end_of_cased_word(std::string_view text, std::size_t begin) const {
  std::size_t at = begin;
  std::size_t behind_both = begin;  // behind the last character that is leading and trailing
  while (at < text.size()) {
    std::size_t behind = at;
    const Classes next = take(text, behind);
    if ((next & CharClass::lower) != 0) return end_of_run(text, behind, CharClass::trailing);
    if ((next & CharClass::leading) == 0) break;
    at = behind;
    if ((next & CharClass::trailing) != 0) behind_both = behind;
  }
  return behind_both > begin ? behind_both : at;
}

std::size_t PieceCutter::end_of_o200k(std::string_view text, std::size_t begin) const {
  const auto with_contraction = [&](std::size_t end) {
    return end < text.size() && text[end] == '\'' ? end + any_case_contraction_length(text.substr(end)) : end;
  };
  std::size_t at = begin;
  const Classes first = take(text, at);
  if ((first & (CharClass::letters | CharClass::accent)) != 0) return with_contraction(end_of_cased_word(text, begin));
  if ((first & CharClass::number) != 0) return end_of_numbers(text, at, 2);
  if ((first & CharClass::line_end) == 0) {
    if (const std::size_t end = end_of_cased_word(text, at); end > at) return with_contraction(end);
  }
  std::size_t behind = at;
  const Classes second = at < text.size() ? take(text, behind) : Classes{0};
  if ((first & CharClass::marks) == 0 && (text[begin] != ' ' || (second & CharClass::marks) == 0))
    return end_of_lines(text, begin);
  at = end_of_run(text, at, CharClass::marks);
  while (at < text.size() && (text[at] == '\r' || text[at] == '\n' || text[at] == '/')) ++at;
  return at;
}

std::size_t PieceCutter::end_of_piece(std::string_view text, std::size_t begin) const {
  switch (rule_) {
    case PieceRule::whole_text: return text.size();
    case PieceRule::gpt2: return end_of_gpt2(text, begin);
    case PieceRule::llama3: return end_of_llama3(text, begin, 3);
    case PieceRule::qwen2: return end_of_llama3(text, begin, 1);
    case PieceRule::o200k: return end_of_o200k(text, begin);
  }
  return text.size();
}

}  // namespace lockstep
