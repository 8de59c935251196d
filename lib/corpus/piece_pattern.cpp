#include "corpus/piece_pattern.hpp"

#include "base/error.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

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

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+   with possessive repeats, which match the same and never go back.
std::string gpt2_pattern() {
  const std::string letter = fmt::format("\\p{{L}}{}", newer_letters);
  const std::string number = fmt::format("\\p{{N}}{}", newer_numbers);
  return fmt::format("'(?:[stmd]|re|ve|ll)| ?[{0}]++| ?[{1}]++| ?[^{2}{0}{1}]++|[{2}]+(?![^{2}])|[{2}]++", letter, number, space);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string reason_of(int error) {
  std::string text(160, '\0');
  const int length = pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  text.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return text;
}

}  // namespace

struct PiecePattern::Code {
  pcre2_code* regex = nullptr;
  bool compiled = false;   // to machine code; elsewhere PCRE2 interprets
  explicit Code(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE where = 0;
    regex = pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &where, nullptr);
    if (regex == nullptr) fail(ExitCode::bug, "the piece pattern does not compile at {}: {}", where, reason_of(error));
    compiled = pcre2_jit_compile(regex, PCRE2_JIT_COMPLETE) == 0;
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(regex); }
};

PiecePattern PiecePattern::gpt2() { return PiecePattern(std::make_unique<Code>(gpt2_pattern())); }
PiecePattern::PiecePattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
PiecePattern::PiecePattern(PiecePattern&&) noexcept = default;
PiecePattern::~PiecePattern() = default;

struct PieceCutter::State {
  const pcre2_code* regex;
  bool compiled;
  pcre2_match_data* match;
  State(const pcre2_code* code, bool is_compiled) : regex(code), compiled(is_compiled), match(pcre2_match_data_create(1, nullptr)) {
    if (match == nullptr) throw std::bad_alloc();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { pcre2_match_data_free(match); }
};

PieceCutter::PieceCutter(const PiecePattern& pattern) : state_(std::make_unique<State>(pattern.code_->regex, pattern.code_->compiled)) {}
PieceCutter::~PieceCutter() = default;

std::size_t PieceCutter::end_of_piece(std::string_view text, std::size_t begin) {
  const int found = state_->compiled
                        ? pcre2_jit_match(state_->regex, units(text), text.size(), begin, PCRE2_NO_UTF_CHECK, state_->match, nullptr)
                        : pcre2_match(state_->regex, units(text), text.size(), begin, PCRE2_NO_UTF_CHECK, state_->match, nullptr);
  const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(state_->match);
  if (found < 0 || range[0] != begin || range[1] <= begin) {
    fail(ExitCode::bug, "the piece pattern fails at byte {} of {}: {}", begin, text.size(), found < 0 ? reason_of(found) : "it skips text");
  }
  return range[1];
}

}  // namespace lockstep
