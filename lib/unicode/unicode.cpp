#include "unicode/unicode.hpp"

#include "unicode/text_opening.hpp"
#include "unicode/unicode_tables.hpp"
#include "unicode/utf8.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::size_t code_points = 0x110000;
constexpr std::uint16_t category_bits = 0x1F;

std::vector<std::uint16_t> spread(std::span<const UnicodeRun> runs) {
  std::vector<std::uint16_t> values(code_points);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t end = i + 1 < runs.size() ? runs[i + 1].first : code_points;
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(runs[i].first),
              values.begin() + static_cast<std::ptrdiff_t>(end), runs[i].value);
  }
  return values;
}

const std::vector<std::uint16_t>& properties() {
  static const std::vector<std::uint16_t> values = spread(property_runs());
  return values;
}

// Hangul syllables are made of a leading consonant, a vowel and perhaps a trailing consonant.
constexpr char32_t first_syllable = 0xAC00;
constexpr char32_t syllables = 11172;
constexpr char32_t first_lead = 0x1100;
constexpr char32_t first_vowel = 0x1161;
constexpr char32_t vowels = 21;
constexpr char32_t before_trails = 0x11A7;
constexpr char32_t trails = 28;  // with none

std::uint64_t pair_of(char32_t first, char32_t second) { return std::uint64_t{first} << 32 | second; }

/// A character of a normal form, and how the tokenizers library counts it: 0 where it stands for one of the text, 1
/// where it comes besides, less by one for each that it took in.
struct CountedCharacter {
  char32_t character = 0;
  int change = 0;
  operator char32_t() const { return character; }
};

void join(char32_t& first, char32_t whole, char32_t) { first = whole; }
void join(CountedCharacter& first, char32_t whole, const CountedCharacter& second) {
  first = {whole, first.change + second.change - 1};
}

struct Forms {
  std::vector<std::uint16_t> combining = spread(combining_runs());
  std::unordered_map<char32_t, std::span<const char32_t>> canonical;
  std::unordered_map<char32_t, std::span<const char32_t>> compatible;
  std::unordered_map<std::uint64_t, char32_t> wholes;
  std::vector<bool> settled = std::vector<bool>(code_points, true);  // starters that NFC leaves apart from their left

  Forms() {
    read(canonical_decompositions(), canonical);
    read(compatible_decompositions(), compatible);
    for (const auto& [first, second, whole] : composition_pairs()) {
      wholes.emplace(pair_of(first, second), whole);
      settled[second] = false;
    }
    for (std::size_t c = 0; c < code_points; ++c) {
      if (combining[c] != 0) settled[c] = false;
    }
    for (const auto& [c, parts] : canonical) settled[c] = false;
    for (const auto& [pair, whole] : wholes) settled[whole] = combining[whole] == 0;
    for (char32_t c = first_vowel; c < before_trails + trails; ++c) settled[c] = false;
  }

  static void read(std::span<const char32_t> table, std::unordered_map<char32_t, std::span<const char32_t>>& parts) {
    for (std::size_t at = 0; at < table.size(); at += 2 + table[at + 1])
      parts.emplace(table[at], table.subspan(at + 2, table[at + 1]));
  }

  void decompose(char32_t c, bool compatibly, std::u32string& out) const {
    if (c - first_syllable < syllables) {
      const char32_t index = c - first_syllable;
      out.push_back(first_lead + index / (vowels * trails));
      out.push_back(first_vowel + index / trails % vowels);
      if (index % trails != 0) out.push_back(before_trails + index % trails);
      return;
    }
    if (c >= 0xA0) {
      for (const auto* const table : {&compatible, &canonical}) {
        if (table == &compatible && !compatibly) continue;
        if (const auto found = table->find(c); found != table->end()) {
          out.append(found->second.begin(), found->second.end());
          return;
        }
      }
    }
    out.push_back(c);
  }

  /// The character that two make; 0 if none.
  char32_t composed(char32_t first, char32_t second) const {
    if (first - first_lead < 19 && second - first_vowel < vowels)
      return first_syllable + ((first - first_lead) * vowels + (second - first_vowel)) * trails;
    if (first - first_syllable < syllables && (first - first_syllable) % trails == 0 &&
        second - before_trails - 1 < trails - 1)
      return first + (second - before_trails);
    const auto found = wholes.find(pair_of(first, second));
    return found == wholes.end() ? 0 : found->second;
  }

  // `Text` holds characters, or counted characters.
  template <class Text>
  void order(Text& text) const {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = begin;
      while (end < text.size() && combining[text[end]] != 0) ++end;
      std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(begin),
                       text.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](char32_t a, char32_t b) { return combining[a] < combining[b]; });
      begin = end + 1;
    }
  }

  template <class Text>
  void compose(Text& text) const {
    constexpr std::size_t none = ~std::size_t{0};
    std::size_t starter = none;
    std::uint16_t before = 0;  // class of what stands before, behind the starter
    std::size_t size = 0;
    for (const auto c : text) {
      const std::uint16_t own = combining[c];
      if (starter != none && (before == 0 || before < own)) {
        if (const char32_t whole = composed(text[starter], c); whole != 0) {
          join(text[starter], whole, c);
          continue;
        }
      }
      before = own;
      if (own == 0) starter = size;
      text[size++] = c;
    }
    text.resize(size);
  }

  void append(std::string_view text, NormalForm form, std::string& out) const {
    std::u32string characters;
    for (std::size_t at = 0; at < text.size();)
      decompose(next_code_point(text, at), form == NormalForm::nfkc || form == NormalForm::nfkd, characters);
    order(characters);
    if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(characters);
    for (const char32_t c : characters) append_code_point(out, c);
  }
};

/// Where `text` may be cut at or behind `at`: both parts come out as within the whole.
std::size_t next_cut(const Forms& forms, std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t behind = at;
    const char32_t c = next_code_point(text, behind);
    if (at > 0 && forms.settled[c] && !forms.compatible.contains(c)) break;
    at = behind;
  }
  return at;
}

// Most text is in NFC: only what stands around a character that is not settled is worked on.
std::string composed_form(const Forms& forms, std::string_view text) {
  std::string out;
  std::size_t done = 0;
  std::size_t starter = 0;  // where the last settled character begins
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      starter = at++;
      continue;
    }
    std::size_t behind = at;
    if (forms.settled[next_code_point(text, behind)]) {
      starter = std::exchange(at, behind);
      continue;
    }
    while (behind < text.size()) {
      std::size_t next = behind;
      if (forms.settled[next_code_point(text, next)]) break;
      behind = next;
    }
    out.append(text, done, starter - done);
    forms.append(text.substr(starter, behind - starter), NormalForm::nfc, out);
    done = starter = at = behind;
  }
  return done == 0 ? std::string(text) : out.append(text.substr(done));
}

const Forms& all_forms() {
  static const Forms forms;
  return forms;
}

constexpr std::array<std::string_view, 29> category_names{"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                          "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                          "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

}  // namespace

Category category_of(char32_t c) { return static_cast<Category>(properties()[c] & category_bits); }
bool has(char32_t c, CodePointFlag flag) { return (properties()[c] & static_cast<std::uint16_t>(flag)) != 0; }

std::string class_members(std::string_view category, CodePointFlag flag) {
  std::string members;
  const auto runs = property_runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if ((runs[i].value & static_cast<std::uint16_t>(flag)) == 0 ||
        !category_names[runs[i].value & category_bits].starts_with(category))
      continue;
    const char32_t end = i + 1 < runs.size() ? runs[i + 1].first : code_points;
    members += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<std::uint32_t>(runs[i].first),
                           static_cast<std::uint32_t>(end - 1));
  }
  return members;
}

std::string normalized(std::string_view text, NormalForm form) {
  const Forms& forms = all_forms();
  if (form == NormalForm::nfc) return composed_form(forms, text);
  std::string out;
  out.reserve(text.size());
  forms.append(text, form, out);
  return out;
}

std::size_t normalized_opening(std::string_view text, NormalForm form, std::size_t opening) {
  const Forms& forms = all_forms();
  const bool compatibly = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const std::string_view head = text.substr(0, next_cut(forms, text, opening));
  std::vector<CountedCharacter> characters;
  std::u32string parts;
  for (std::size_t at = 0; at < head.size();) {
    parts.clear();
    forms.decompose(next_code_point(head, at), compatibly, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) characters.push_back({parts[i], i == 0 ? 0 : 1});
  }
  forms.order(characters);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) forms.compose(characters);
  OpeningTracker tracker(head, opening);
  for (const auto& [character, change] : characters) {
    std::string bytes;
    append_code_point(bytes, character);
    if (!tracker.add(bytes.size(), change)) break;
  }
  return tracker.opening();
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      const char c = text[at++];
      out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c);
      continue;
    }
    const char32_t c = next_code_point(text, at);
    if (c == 0x130) {
      out += "i\u0307";
      continue;
    }
    append_code_point(out, changed_point(c, lower_runs()));
  }
  return out;
}

}  // namespace lockstep
