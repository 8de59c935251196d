#include "tokenizer/regular_expression.hpp"

#include "base/error.hpp"
#include "unicode/unicode.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>

namespace lockstep {

namespace {

// Unicode's White_Space; PCRE2's own \s has one character more.
constexpr const char* white_space =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Oniguruma's \w: Unicode's words, and outside of classes some numbers of Latin-1 besides.
std::string word_members(bool in_class) {
  std::string members;
  for (const char* const category : {"L", "M", "N", "P", "S"}) members += class_members(category, CodePointFlag::word);
  return in_class ? members : members + R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
}

std::string reason_of(int error) {
  std::string text(160, '\0');
  const int length = pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  text.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return text;
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

/// Goes through an expression and writes it as PCRE2 reads it.
class Translation {
 public:
  Translation(std::string_view expression, const std::string& where) : from_(expression), where_(where) {}

  std::string run() {
    while (at_ < from_.size()) {
      const char c = from_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        open_class();
      } else if (c == ']' && in_class_) {
        in_class_ = false;
        copy(1);
      } else if (c == '&' && in_class_ && from_.substr(at_).starts_with("&&")) {
        refuse("&& within a class");
      } else if (c == '}' && !in_class_ && from_.substr(at_).starts_with("}+")) {
        refuse("the quantifier {…}+");
      } else if (c == '(' && !in_class_) {
        open_group();
      } else {
        copy(1);
      }
    }
    return std::move(to_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::usage, fmt::format("{}: {} in the expression '{}' is not supported", where_, what, from_),
                "rewrite the expression; PCRE2 compiles it");
  }
  void copy(std::size_t count) {
    to_ += from_.substr(at_, count);
    at_ += count;
  }
  void replace(std::size_t count, const std::string& by) {
    to_ += by;
    at_ += count;
  }

  void open_class() {
    if (in_class_) refuse("a class within a class");
    in_class_ = true;
    copy(from_.substr(at_).starts_with("[^") ? 2 : 1);
    if (at_ < from_.size() && from_[at_] == ']') refuse("a class that begins with ]");
  }

  // Groups that both read alike: plain, (?:…), (?i:…), looks ahead and behind.
  void open_group() {
    const std::string_view rest = from_.substr(at_);
    if (rest.starts_with("(?i")) refuse_foldings(rest);
    if (rest.starts_with("(?")) {
      for (const char* const known : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i)", "(?-i:"}) {
        if (rest.starts_with(known)) return copy(std::string_view(known).size());
      }
      refuse("the group " + std::string(rest.substr(0, 4)));
    }
    if (rest.starts_with("(*")) refuse("(*");
    copy(1);
  }

  // Where case does not count Oniguruma takes one character for two: ß for ss, a ligature for fi.
  void refuse_foldings(std::string_view rest) const {
    std::string small;
    for (const char c : rest) small.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c);
    for (const char* const pair : {"ss", "ff", "fi", "fl", "st"}) {
      if (small.find(pair) != std::string::npos) refuse(fmt::format("(?i with the letters {}", pair));
    }
    for (const char c : rest) {
      if (static_cast<unsigned char>(c) >= 0x80) refuse("(?i with non-ASCII letters");
    }
  }

  void escape() {
    if (at_ + 1 == from_.size()) refuse("a \\ at the end");
    const char c = from_[at_ + 1];
    const auto set = [&](const std::string& members) { replace(2, in_class_ ? members : "[" + members + "]"); };
    const auto outside = [&](const std::string& members) {
      if (in_class_) refuse(fmt::format("\\{} within a class", c));
      replace(2, "[^" + members + "]");
    };
    switch (c) {
      case 's': return set(white_space);
      case 'S': return in_class_ ? replace(2, R"(\S\x{180E})") : outside(white_space);
      case 'd': return set("\\p{Nd}" + class_members("Nd", CodePointFlag::newer));
      case 'D': return outside("\\p{Nd}" + class_members("Nd", CodePointFlag::newer));
      case 'w': return set(word_members(in_class_));
      case 'W': return outside(word_members(false));
      case 'p':
      case 'P': return property(c == 'P');
      case 'u': return code_unit();
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'v':
      case 'x':
      case 'A':
      case 'z': break;
      default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) refuse(fmt::format("\\{}", c));
    }
    if (c == 'v') return replace(2, "\\x{0B}");
    copy(2);
  }

  // \uHHHH, a code point.
  void code_unit() {
    const std::string_view digits = from_.substr(at_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse("a \\u without four digits");
    replace(6, fmt::format("\\x{{{}}}", digits));
  }

  // A general category, with its members of a newer Unicode; scripts as PCRE2 knows them.
  void property(bool not_it) {
    const std::string_view rest = from_.substr(at_ + 2);
    const std::size_t end = rest.find('}');
    if (!rest.starts_with('{') || end == std::string_view::npos) refuse("a property without braces");
    std::string name(rest.substr(1, end - 1));
    if (name.starts_with('^')) {
      not_it = !not_it;
      name.erase(0, 1);
    }
    const bool is_category = name.size() <= 2 && std::string_view("LMNPSZC").find(name[0]) != std::string_view::npos;
    if (is_category && name[0] == 'C') refuse("\\p{" + name + "}");
    const std::string members =
        "\\p{" + name + "}" + (is_category ? class_members(name, CodePointFlag::newer) : std::string());
    if (not_it && in_class_) refuse("\\P within a class");
    replace(end + 3, in_class_ ? members : (not_it ? "[^" : "[") + members + "]");
  }

  std::string_view from_;
  const std::string& where_;
  std::string to_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

using Match = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

}  // namespace

RegularExpression::RegularExpression(const std::string& expression, const std::string& where)
    : expression_(expression) {
  compile(Translation(expression, where).run(), where);
}

RegularExpression RegularExpression::grapheme() {
  RegularExpression made;
  made.expression_ = "\\X";
  made.compile(made.expression_, "graphemes");
  return made;
}

void RegularExpression::compile(const std::string& translated, const std::string& where) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(
      units(translated), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr)
    fail(ExitCode::usage, "{}: PCRE2 cannot compile the expression '{}': {}", where, expression_, reason_of(error));
  code_ = std::shared_ptr<void>(code, [](void* made) { pcre2_code_free(static_cast<pcre2_code*>(made)); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no compiler for the processor, it is interpreted
}

namespace {

constexpr std::uint32_t quick_steps = 1000;  // of one position, which are not counted
constexpr std::array<std::uint32_t, 7> more_steps{4'000, 16'000, 64'000, 256'000, 1'000'000, 4'000'000, 10'000'000};
constexpr std::int64_t most_steps = 100'000'000;    // of one text, as counted, and
constexpr std::int64_t most_steps_of_a_byte = 200;  // besides

using Context = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

/// Looks for matches in one text. PCRE2 bounds the steps at one position alone. Where a position is not quick, the
/// search goes on position by position, and all slow positions of a text together have a bound as well.
class Search {
 public:
  Search(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        left_(most_steps + most_steps_of_a_byte * static_cast<std::int64_t>(text.size())),
        match_(pcre2_match_data_create(1, nullptr), pcre2_match_data_free),
        context_(pcre2_match_context_create(nullptr), pcre2_match_context_free) {
    if (!match_ || !context_) throw std::bad_alloc();
  }

  /// PCRE2's result for the first match from `at` on.
  int find(std::size_t at) {
    const int quick = match(at, 0, quick_steps);
    if (quick != PCRE2_ERROR_MATCHLIMIT) return quick;
    for (std::size_t position = at; position <= text_.size(); position = next_character(position)) {
      if (const int result = match_here(position); result != PCRE2_ERROR_NOMATCH) return result;
    }
    return PCRE2_ERROR_NOMATCH;
  }

  std::size_t next_character(std::size_t at) const {
    ++at;
    while (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80) ++at;
    return at;
  }

  const PCRE2_SIZE* place() const { return pcre2_get_ovector_pointer(match_.get()); }

 private:
  int match_here(std::size_t position) {
    int result = match(position, PCRE2_ANCHORED, quick_steps);
    for (const std::uint32_t steps : more_steps) {
      if (result != PCRE2_ERROR_MATCHLIMIT) return result;
      left_ -= steps;
      if (left_ < 0) return result;
      result = match(position, PCRE2_ANCHORED, steps);
    }
    return result;
  }

  int match(std::size_t at, std::uint32_t options, std::uint32_t steps) {
    pcre2_set_match_limit(context_.get(), steps);
    const auto run = [&](std::uint32_t more) {
      return pcre2_match(code_, units(text_), text_.size(), at, PCRE2_NO_UTF_CHECK | options | more, match_.get(),
                         context_.get());
    };
    const int result = run(0);
    return result == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_JIT) : result;
  }

  const pcre2_code* code_;
  std::string_view text_;
  std::int64_t left_;
  Match match_;
  Context context_;
};

}  // namespace

void RegularExpression::for_each(std::string_view text,
                                 const std::function<void(std::size_t, std::size_t)>& found) const {
  Search search(static_cast<const pcre2_code*>(code_.get()), text);
  std::size_t last_end = ~std::size_t{0};
  for (std::size_t at = 0; at <= text.size();) {
    const int result = search.find(at);
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0)
      fail(ExitCode::input, "cannot split a text of {} bytes with the expression '{}': {}", text.size(), expression_,
           reason_of(result));
    const std::size_t begin = search.place()[0];
    const std::size_t end = search.place()[1];
    if (end > begin || end != last_end) found(begin, end);
    last_end = end;
    at = end > begin ? end : search.next_character(end);  // behind an empty match goes on with the next character
  }
}

}  // namespace lockstep
