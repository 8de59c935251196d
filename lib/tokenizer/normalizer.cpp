#include "tokenizer/normalizer.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/base64.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/charsmap.hpp"
#include "tokenizer/regular_expression.hpp"
#include "tokenizer/tokenizer_part.hpp"
#include "unicode/newer_marks.hpp"
#include "unicode/text_opening.hpp"
#include "unicode/unicode.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <functional>
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

std::string stripped(std::string_view text, bool left, bool right, std::size_t& opening) {
  const std::size_t whole = text.size();
  while (left && !text.empty()) {
    std::size_t behind = 0;
    if (!is_white_space(next_code_point(text, behind))) break;
    text.remove_prefix(behind);
  }
  const std::size_t removed = whole - text.size();
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    std::size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) break;
    text.remove_suffix(text.size() - begin);
  }
  opening = opening_of_part(opening, removed, text.size());
  return std::string(text);
}

/// Puts `by` for matches as they are found.
class Replacement {
 public:
  /// `require` is called with the bytes that are made, and may throw.
  Replacement(std::string_view text, std::string_view by, std::size_t opening,
              const std::function<void(std::size_t)>& require)
      : text_(text), by_(by), opening_(opening), require_(require) {}

  void match(std::size_t begin, std::size_t end) {
    keep_until(begin);
    if (end == 0 || end - 1 < opening_) made_opening_ += by_.size();  // it stems from the last character of the match
    require_(out_.size() + by_.size());
    out_ += by_;
    done_ = end;
  }
  std::string finish(std::size_t& opening) {
    keep_until(text_.size());
    opening = made_opening_;
    return std::move(out_);
  }

 private:
  void keep_until(std::size_t end) {
    made_opening_ += opening_of_part(opening_, done_, end - done_);
    out_.append(text_, done_, end - done_);
  }

  std::string_view text_;
  std::string_view by_;
  std::size_t opening_;
  const std::function<void(std::size_t)>& require_;
  std::size_t made_opening_ = 0;
  std::size_t done_ = 0;
  std::string out_;
};

std::string replaced(std::string_view text, std::string_view what, std::string_view by, std::size_t& opening,
                     const std::function<void(std::size_t)>& require) {
  Replacement replacement(text, by, opening, require);
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at += what.size())
    replacement.match(at, at + what.size());
  return replacement.finish(opening);
}

std::string replaced(std::string_view text, const RegularExpression& what, std::string_view by, std::size_t& opening,
                     const std::function<void(std::size_t)>& require) {
  Replacement replacement(text, by, opening, require);
  what.for_each(text, [&](std::size_t begin, std::size_t end) { replacement.match(begin, end); });
  return replacement.finish(opening);
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

/// Follows the opening where parts of a text are replaced by others. The library counts their characters: surplus ones
/// are inserted behind the others, missing ones are removed behind the last character before.
class ReplacedParts {
 public:
  ReplacedParts(std::string_view text, std::size_t opening) : tracker_(text, opening), before_(opening) {}

  void replace(std::string_view part, std::string_view by) {
    if (done_) return;
    changed_ = true;
    const int before = count(part), after = count(by);
    int number = 0;
    for_each_character(by, [&](char32_t, std::string_view own) { push(own.size(), number++ < before ? 0 : 1); });
    if (after < before && last_bytes_ > 0) last_change_ += after - before;
  }
  void keep(std::string_view character) {
    if (!done_) push(character.size(), 0);
  }
  std::size_t finish() {
    flush();
    return changed_ ? tracker_.opening() : before_;
  }

 private:
  static int count(std::string_view text) {
    int characters = 0;
    for_each_character(text, [&](char32_t, std::string_view) { ++characters; });
    return characters;
  }
  void push(std::size_t bytes, int change) {
    flush();
    last_bytes_ = bytes;
    last_change_ = change;
  }
  void flush() {
    if (!done_ && last_bytes_ > 0) done_ = !tracker_.add(last_bytes_, last_change_);
  }

  OpeningTracker tracker_;
  std::size_t before_;
  bool changed_ = false;
  bool done_ = false;  // behind the opening
  std::size_t last_bytes_ = 0;
  int last_change_ = 0;
};

// The library looks a small grapheme up as a whole, and where it or a head of it has a rule replaces all of it; else
// each of its characters.
std::string mapped(std::string_view text, const Charsmap& map, const RegularExpression& grapheme,
                   std::size_t& opening) {
  std::string out;
  ReplacedParts parts(text, opening);
  const auto map_one = [&](std::string_view whole) {
    if (whole.size() < 6) {
      if (const auto rule = map.shortest(whole)) {
        parts.replace(whole, rule->becomes);
        out += rule->becomes;
        return;
      }
    }
    for_each_character(whole, [&](char32_t, std::string_view own) {
      const auto rule = map.shortest(own);
      if (rule) {
        parts.replace(own, rule->becomes);
      } else {
        parts.keep(own);
      }
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
  opening = parts.finish();
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
      add_form(form, form == NormalForm::nfc || form == NormalForm::nfd);
    } else if (type == "Lowercase") {
      part.require_only({});
      add_local(lower_case, true);
    } else if (type == "Strip") {
      part.require_only({"strip_left", "strip_right"});
      add([left = part.flag("strip_left"), right = part.flag("strip_right")](
              std::string_view text, std::size_t& opening,
              const Limit&) { return stripped(text, left, right, opening); },
          false);
    } else if (type == "StripAccents") {
      part.require_only({});
      add_local(
          [](std::string_view text) {
            return without(text, [](char32_t c) { return has(c, CodePointFlag::combining_mark); });
          },
          false);
    } else if (type == "Nmt") {
      part.require_only({});
      add_local(nmt, false);
    } else if (type == "Prepend") {
      part.require_only({"prepend"});
      add(
          [what = part.text("prepend")](std::string_view text, std::size_t& opening, const Limit&) {
            if (opening > 0) opening += what.size();
            return text.empty() ? std::string() : what + std::string(text);
          },
          false);
    } else if (type == "Replace") {
      read_replace(part);
    } else if (type == "ByteLevel") {
      part.require_only({});
      add_local(to_byte_level, false);
    } else if (type == "Precompiled") {
      read_precompiled(part);
    } else if (type == "BertNormalizer") {
      read_bert(part);
    } else {
      part.refuse();
    }
  }

 private:
  using Limit = Normalizer::SizeLimit;

  void add(Normalizer::Step step, bool keeps_cuts) {
    to_.steps_.push_back(std::move(step));
    to_.keeps_cuts_ = to_.keeps_cuts_ && keeps_cuts;
  }

  // A step that changes single characters: the opening is changed as any other text.
  template <class Change>
  void add_local(Change change, bool keeps_cuts) {
    add(
        [change](std::string_view text, std::size_t& opening, const Limit&) {
          if (opening > 0) opening = change(text.substr(0, opening)).size();
          return change(text);
        },
        keeps_cuts);
  }

  void add_form(NormalForm form, bool keeps_cuts) {
    add(
        [form](std::string_view text, std::size_t& opening, const Limit&) {
          if (opening > 0) opening = normalized_opening(text, form, opening);
          return normalized(text, form);
        },
        keeps_cuts);
  }

  void read_replace(const TokenizerPart& part) {
    part.require_only({"pattern", "content"});
    const auto [is_expression, what] = part.pattern();
    if (what.empty()) part.refuse("pattern");
    const std::string by = part.text("content");
    if (is_expression) {
      add(
          [expression = RegularExpression(what, part.where()), by](std::string_view text, std::size_t& opening,
                                                                   const Limit& limit) {
            return replaced(text, expression, by, opening, [&](std::size_t made) { limit.require(made); });
          },
          false);
    } else {
      add(
          [what = what, by](std::string_view text, std::size_t& opening, const Limit& limit) {
            return replaced(text, what, by, opening, [&](std::size_t made) { limit.require(made); });
          },
          false);
    }
  }

  void read_precompiled(const TokenizerPart& part) {
    part.require_only({"precompiled_charsmap"});
    const auto blob = from_base64(part.text("precompiled_charsmap"));
    if (!blob) fail(ExitCode::input, "{}: precompiled_charsmap is not base64", part.where());
    if (blob->empty()) return;
    const auto map = std::make_shared<const Charsmap>(*blob, part.where());
    const auto grapheme = std::make_shared<const RegularExpression>(RegularExpression::grapheme());
    add([map, grapheme](std::string_view text, std::size_t& opening,
                        const Limit&) { return mapped(text, *map, *grapheme, opening); },
        false);
  }

  void read_bert(const TokenizerPart& part) {
    part.require_only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    const bool lowercase = part.flag("lowercase");
    if (part.flag("clean_text")) add_local(cleaned, false);
    if (part.flag("handle_chinese_chars")) add_local(with_spaced_chinese, false);
    if (part.flag("strip_accents", lowercase)) {
      add_form(NormalForm::nfd, false);
      add_local(
          [](std::string_view text) { return without(text, [](char32_t c) { return has(c, CodePointFlag::accent); }); },
          false);
    }
    if (lowercase) add_local(lower_case, false);
  }

  Normalizer& to_;
};

Normalizer::Normalizer(const Json& normalizer, const std::string& where) {
  if (normalizer.is_null()) return;
  NormalizerReader(*this).read(TokenizerPart(normalizer, where));
}

std::string Normalizer::apply(std::string_view text) const {
  std::size_t opening = 0;
  return apply(text, opening);
}

std::string Normalizer::apply(std::string_view text, std::size_t& opening) const {
  const SizeLimit limit{text.size(), most_made_of(text)};
  std::string out(text);
  for (const Step& step : steps_) {
    out = step(out, opening, limit);
    limit.require(out.size());
  }
  return out;
}

void Normalizer::SizeLimit::require(std::size_t made) const {
  if (made <= most) return;
  throw Error(
      ExitCode::input,
      fmt::format("the tokenizer's normalizer turns a text of {} bytes into more than {} bytes, the limit", text, most),
      "is the content of a Replace far longer than the text that it replaces?");
}

}  // namespace lockstep
