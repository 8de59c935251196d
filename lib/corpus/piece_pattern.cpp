#include "corpus/piece_pattern.hpp"

#include "base/error.hpp"
#include "corpus/utf8.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>
#include <string>

namespace lockstep {

namespace {

// Letters and numbers of Unicode 15 to 16, which the tokenizers library knows and PCRE2 10.42 does not.
constexpr const char* newer_letters =
    R"(\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65}\x{10D6F}-\x{10D85})"
    R"(\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1})"
    R"(\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446})"
    R"(\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A})"
    R"(\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr const char* newer_numbers =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59}\x{16130}-\x{16139}\x{16D70}-\x{16D79})"
    R"(\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

// Unicode's White_Space; PCRE2's own \s has one character more.
constexpr const char* space = R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string reason_of(int error) {
  std::string text(160, '\0');
  const int length = pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  text.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return text;
}

// Of a character that is none of these, a mark, nothing matches.
std::string class_expression() {
  return fmt::format("([\\p{{L}}{}])|([\\p{{N}}{}])|([{}])", newer_letters, newer_numbers, space);
}

// The length of a contraction that `text` begins with: 's 't 'm 'd 're 've 'll; 0 if there is none. text[0] is the
// apostrophe.
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

}  // namespace

struct PiecePattern::Code {
  pcre2_code* regex = nullptr;
  explicit Code(const std::string& expression) {
    int error = 0;
    PCRE2_SIZE where = 0;
    regex = pcre2_compile(units(expression), expression.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, &error, &where, nullptr);
    if (regex == nullptr)
      fail(ExitCode::bug, "the classes of characters do not compile at {}: {}", where, reason_of(error));
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(regex); }

  Classes page(char32_t first) const {
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create(4, nullptr),
                                                                                    pcre2_match_data_free);
    if (!match) throw std::bad_alloc();
    Classes classes{};
    for (char32_t i = 0; i < page_size; ++i) {
      std::string character;
      append_code_point(character, first + i);
      const int found =
          pcre2_match(regex, units(character), character.size(), 0, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        fail(ExitCode::bug, "the class of U+{:04X} is not found: {}", static_cast<unsigned>(first + i),
             reason_of(found));
      constexpr std::array by_group{CharacterClass::letter, CharacterClass::number, CharacterClass::space};
      classes[i] = found < 0 ? CharacterClass::mark
                             : by_group[static_cast<std::size_t>(found) - 2];  // found: one more than the group
    }
    return classes;
  }
};

PiecePattern PiecePattern::gpt2() { return PiecePattern(std::make_unique<Code>(class_expression())); }
PiecePattern::PiecePattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
PiecePattern::PiecePattern(PiecePattern&&) noexcept = default;
PiecePattern::~PiecePattern() = default;
PiecePattern::Classes PiecePattern::classes_of_page(char32_t first) const { return code_->page(first); }

PieceCutter::PieceCutter(const PiecePattern& pattern) : pattern_(&pattern), ascii_(pattern.classes_of_page(0)) {}

inline CharacterClass PieceCutter::take(std::string_view text, std::size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte >= 0x80) return take_beyond_ascii(text, at);
  ++at;
  return ascii_[byte];
}

CharacterClass PieceCutter::take_beyond_ascii(std::string_view text, std::size_t& at) {
  const char32_t character = next_code_point(text, at);
  auto& page = pages_[character / PiecePattern::page_size];
  if (!page)
    page = std::make_unique<PiecePattern::Classes>(
        pattern_->classes_of_page(character - character % PiecePattern::page_size));
  return (*page)[character % PiecePattern::page_size];
}

std::size_t PieceCutter::end_of_run(std::string_view text, std::size_t at, CharacterClass of) {
  while (at < text.size()) {
    std::size_t behind = at;
    if (take(text, behind) != of) break;
    at = behind;
  }
  return at;
}

// All white space at the end of the text; elsewhere without its last character, unless that is the only one.
std::size_t PieceCutter::end_of_spaces(std::string_view text, std::size_t begin) {
  std::size_t last = begin;
  std::size_t at = begin;
  while (at < text.size()) {
    std::size_t behind = at;
    if (take(text, behind) != CharacterClass::space) return last == begin ? at : last;
    last = at;
    at = behind;
  }
  return at;
}

std::size_t PieceCutter::end_of_piece(std::string_view text, std::size_t begin) {
  if (text[begin] == '\'') {
    if (const std::size_t length = contraction_length(text.substr(begin))) return begin + length;
  }
  std::size_t at = begin;
  CharacterClass first = take(text, at);
  if (text[begin] == ' ' && at < text.size()) first = take(text, at);  // a space goes with what follows
  return first == CharacterClass::space ? end_of_spaces(text, begin) : end_of_run(text, at, first);
}

}  // namespace lockstep
