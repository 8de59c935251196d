#include "corpus/normalizer.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "corpus/base64.hpp"
#include "corpus/byte_level.hpp"
#include "corpus/charsmap.hpp"
#include "corpus/newer_marks.hpp"
#include "corpus/regular_expression.hpp"
#include "corpus/tokenizer_part.hpp"
#include "corpus/unicode.hpp"
#include "corpus/utf8.hpp"

#include <memory>

namespace lockstep {

namespace {

/// Calls `character` with each code point and the text of it.
template <class Character>
void for_each_character(std::string_view text, const Character& character) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    character(c, text.substr(begin, at - begin));
  }
}

template <class Removed>
std::string without(std::string_view text, const Removed& removed) {
  std::string out;
  for_each_character(text, [&](char32_t c, std::string_view own) {
    if (!removed(c)) out += own;
  });
  return out;
}

std::string stripped(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    std::size_t behind = 0;
    if (!is_white_space(next_code_point(text, behind))) break;
    text.remove_prefix(behind);
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    std::size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) break;
    text.remove_suffix(text.size() - begin);
  }
  return std::string(text);
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(what, at);
    if (found == std::string_view::npos) return out.append(text.substr(at));
    out.append(text, at, found - at).append(by);
    at = found + what.size();
  }
}

std::string replaced(std::string_view text, const RegularExpression& what, std::string_view by) {
  std::string out;
  std::size_t done = 0;
  what.for_each(text, [&](std::size_t begin, std::size_t end) {
    out.append(text, done, begin - done).append(by);
    done = end;
  });
  return out.append(text.substr(done));
}

std::string nmt(std::string_view text) {
  std::string out;
  for_each_character(text, [&](char32_t c, std::string_view own) {
    const bool is_space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                          (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                          c == 0xFFFD;
    const bool is_gone = (c >= 0x01 && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    if (is_space) {
      out.push_back(' ');
    } else if (!is_gone) {
      out += own;
    }
  });
  return out;
}

std::string cleaned(std::string_view text) {
  std::string out;
  for_each_character(text, [&](char32_t c, std::string_view own) {
    if (has(c, CodePointFlag::control)) return;
    out += is_white_space(c) ? std::string_view(" ") : own;
  });
  return out;
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string with_spaced_chinese(std::string_view text) {
  std::string out;
  for_each_character(text, [&](char32_t c, std::string_view own) {
    if (is_chinese(c)) out.push_back(' ');
    out += own;
    if (is_chinese(c)) out.push_back(' ');
  });
  return out;
}

/// What no mark joins: controls, and ends of lines and paragraphs.
bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029; }

// The library looks a small grapheme up as a whole, and where it or a head of it has a rule replaces all of it; else
// each of its characters.
std::string mapped(std::string_view text, const Charsmap& map, const RegularExpression& grapheme) {
  std::string out;
  const auto map_one = [&](std::string_view whole) {
    if (whole.size() < 6) {
      if (const auto rule = map.shortest(whole)) {
        out += rule->becomes;
        return;
      }
    }
    for_each_character(whole, [&](char32_t, std::string_view own) {
      const auto rule = map.shortest(own);
      out += rule ? rule->becomes : own;
    });
  };
  std::size_t done = 0, seen = 0;  // what is between them may go on with a mark
  bool joins = false;
  grapheme.for_each(text, [&](std::size_t begin, std::size_t end) {
    const std::string_view whole = text.substr(begin, end - begin);
    char32_t first = 0, last = 0;
    for_each_character(whole, [&](char32_t c, std::string_view) {
      if (first == 0) first = c;
      last = c;
    });
    if (!joins || !is_newer_mark(first)) {
      if (seen > done) map_one(text.substr(done, seen - done));
      done = begin;
    }
    seen = end;
    joins = !is_control(last);
  });
  if (seen > done) map_one(text.substr(done, seen - done));
  return out;
}

}  // namespace

class NormalizerReader {
 public:
  explicit NormalizerReader(Normalizer& normalizer) : to_(normalizer) {}

  void read(const TokenizerPart& part) {
    const std::string& type = part.type();
    if (type == "Sequence") {
      part.require_only({"normalizers"});
      for (const TokenizerPart& one : part.parts("normalizers")) read(one);
    } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
      part.require_only({});
      const NormalForm form = type == "NFC"    ? NormalForm::nfc
                              : type == "NFD"  ? NormalForm::nfd
                              : type == "NFKC" ? NormalForm::nfkc
                                               : NormalForm::nfkd;
      const bool keeps = form == NormalForm::nfc || form == NormalForm::nfd;
      add([form](std::string_view text) { return normalized(text, form); }, keeps);
    } else if (type == "Lowercase") {
      part.require_only({});
      add([](std::string_view text) { return lower_case(text); }, true);
    } else if (type == "Strip") {
      part.require_only({"strip_left", "strip_right"});
      add([left = part.flag("strip_left"),
           right = part.flag("strip_right")](std::string_view text) { return stripped(text, left, right); },
          false);
    } else if (type == "StripAccents") {
      part.require_only({});
      add(
          [](std::string_view text) {
            return without(text, [](char32_t c) { return has(c, CodePointFlag::combining_mark); });
          },
          false);
    } else if (type == "Nmt") {
      part.require_only({});
      add(nmt, false);
    } else if (type == "Prepend") {
      part.require_only({"prepend"});
      add([what = part.text("prepend")](
              std::string_view text) { return text.empty() ? std::string() : what + std::string(text); },
          false);
    } else if (type == "Replace") {
      read_replace(part);
    } else if (type == "ByteLevel") {
      part.require_only({});
      add([](std::string_view text) { return to_byte_level(text); }, false);
    } else if (type == "Precompiled") {
      read_precompiled(part);
    } else if (type == "BertNormalizer") {
      read_bert(part);
    } else {
      part.refuse();
    }
  }

 private:
  void add(Normalizer::Step step, bool keeps_cuts) {
    to_.steps_.push_back(std::move(step));
    to_.keeps_cuts_ = to_.keeps_cuts_ && keeps_cuts;
  }

  void read_replace(const TokenizerPart& part) {
    part.require_only({"pattern", "content"});
    const auto [is_expression, what] = part.pattern();
    if (what.empty()) part.refuse("pattern");
    const std::string by = part.text("content");
    if (is_expression) {
      add([expression = RegularExpression(what, part.where()),
           by](std::string_view text) { return replaced(text, expression, by); },
          false);
    } else {
      add([what = what, by](std::string_view text) { return replaced(text, what, by); }, false);
    }
  }

  void read_precompiled(const TokenizerPart& part) {
    part.require_only({"precompiled_charsmap"});
    const auto blob = from_base64(part.text("precompiled_charsmap"));
    if (!blob) fail(ExitCode::input, "{}: precompiled_charsmap is not base64", part.where());
    if (blob->empty()) return;
    const auto map = std::make_shared<const Charsmap>(*blob, part.where());
    const auto grapheme = std::make_shared<const RegularExpression>(RegularExpression::grapheme());
    add([map, grapheme](std::string_view text) { return mapped(text, *map, *grapheme); }, false);
  }

  void read_bert(const TokenizerPart& part) {
    part.require_only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    const bool lowercase = part.flag("lowercase");
    if (part.flag("clean_text")) add(cleaned, false);
    if (part.flag("handle_chinese_chars")) add(with_spaced_chinese, false);
    if (part.flag("strip_accents", lowercase)) {
      add(
          [](std::string_view text) {
            return without(normalized(text, NormalForm::nfd), [](char32_t c) { return has(c, CodePointFlag::accent); });
          },
          false);
    }
    if (lowercase) add([](std::string_view text) { return lower_case(text); }, false);
  }

  Normalizer& to_;
};

Normalizer::Normalizer(const Json& normalizer, const std::string& where) {
  if (normalizer.is_null()) return;
  NormalizerReader(*this).read(TokenizerPart(normalizer, where));
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) out = step(out);
  return out;
}

}  // namespace lockstep
