#include "tokenizer/pre_tokenizer.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/regular_expression.hpp"
#include "tokenizer/tokenizer_part.hpp"
#include "unicode/text_opening.hpp"
#include "unicode/unicode.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// What becomes of what a pattern matches.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior behavior_of(const TokenizerPart& part, std::string_view otherwise) {
  const std::string name = part.text("behavior", otherwise);
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  part.refuse("behavior");
}

/// A stretch of the text that the pattern matches, or that lies between such.
struct Stretch {
  std::size_t begin;
  std::size_t end;
  bool matches;
};

/// Stretches as a pattern finds them, from left to right.
class Stretches {
 public:
  explicit Stretches(std::string_view text) : text_(text) {}
  void match(std::size_t begin, std::size_t end) {
    if (begin > done_) all_.push_back({done_, begin, false});
    all_.push_back({begin, end, true});
    done_ = end;
  }
  std::vector<Stretch> finish() {
    if (done_ < text_.size()) all_.push_back({done_, text_.size(), false});
    return std::move(all_);
  }

 private:
  std::string_view text_;
  std::size_t done_ = 0;
  std::vector<Stretch> all_;
};

template <class Matches>
std::vector<Stretch> stretches_of_characters(std::string_view text, const Matches& matches) {
  Stretches found(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (matches(next_code_point(text, at))) found.match(begin, at);
  }
  return found.finish();
}

// Merges stretches as the behavior says; a match that follows a match is never merged into it but by `contiguous`.
std::vector<Stretch> behaved(std::vector<Stretch> stretches, SplitBehavior behavior) {
  std::vector<Stretch> out;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::removed:
      std::erase_if(stretches, [](const Stretch& stretch) { return stretch.matches; });
      return stretches;
    case SplitBehavior::isolated: return stretches;
    case SplitBehavior::contiguous:
      for (const Stretch& stretch : stretches) {
        if (!out.empty() && stretch.matches == previous) {
          out.back().end = stretch.end;
        } else {
          out.push_back(stretch);
        }
        previous = stretch.matches;
      }
      return out;
    case SplitBehavior::merged_with_previous:
      for (const Stretch& stretch : stretches) {
        if (stretch.matches && !previous && !out.empty()) {
          out.back().end = stretch.end;
        } else {
          out.push_back(stretch);
        }
        previous = stretch.matches;
      }
      return out;
    case SplitBehavior::merged_with_next:
      for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
        if (stretch->matches && !previous && !out.empty()) {
          out.back().begin = stretch->begin;
        } else {
          out.push_back(*stretch);
        }
        previous = stretch->matches;
      }
      std::ranges::reverse(out);
      return out;
  }
  return out;
}

TextPiece part_of(TextPiece whole, std::size_t begin, std::size_t end) {
  return {whole.text.substr(begin, end - begin), opening_of_part(whole.opening, begin, end - begin)};
}

TextPiece with_space(TextPiece whole, std::deque<std::string>& storage) {
  if (whole.text.starts_with(' ')) return whole;
  return {storage.emplace_back(" " + std::string(whole.text)), whole.opening > 0 ? whole.opening + 1 : 0};
}

void append(TextPiece whole, const std::vector<Stretch>& stretches, std::vector<TextPiece>& pieces) {
  for (const auto& [begin, end, matches] : stretches) {
    if (end > begin) pieces.push_back(part_of(whole, begin, end));
  }
}

bool is_punctuation(char32_t c) { return has(c, CodePointFlag::punctuation); }

}  // namespace

class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(PreTokenizer& pre_tokenizer) : to_(pre_tokenizer) {}

  void read(const TokenizerPart& part) {
    const std::string& type = part.type();
    if (to_.byte_level_ && type != "Sequence") write_letters();
    if (type == "Sequence") {
      part.require_only({"pretokenizers"});
      for (const TokenizerPart& one : part.parts("pretokenizers")) read(one);
    } else if (type == "ByteLevel") {
      read_byte_level(part);
    } else if (type == "Split") {
      read_split(part);
    } else if (type == "Whitespace") {
      part.require_only({});
      add_classes([](char32_t c) { return has(c, CodePointFlag::word) ? 0 : is_white_space(c) ? 2 : 1; });
    } else if (type == "WhitespaceSplit") {
      part.require_only({});
      add_characters(is_white_space, SplitBehavior::removed, PreTokenizer::Cuts::made);
    } else if (type == "BertPreTokenizer") {
      part.require_only({});
      add_characters(is_white_space, SplitBehavior::removed, PreTokenizer::Cuts::made);
      add_characters(is_punctuation, SplitBehavior::isolated, PreTokenizer::Cuts::kept);
    } else if (type == "Punctuation") {
      part.require_only({"behavior"});
      add_local(is_punctuation, behavior_of(part, "Isolated"));
    } else if (type == "Digits") {
      part.require_only({"individual_digits"});
      add_local([](char32_t c) { return has(c, CodePointFlag::numeric); },
                part.flag("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous);
    } else if (type == "CharDelimiterSplit") {
      part.require_only({"delimiter"});
      add_characters([delimiter = part.character("delimiter")](char32_t c) { return c == delimiter; },
                     SplitBehavior::removed, PreTokenizer::Cuts::kept);
    } else if (type == "Metaspace") {
      read_metaspace(part);
    } else if (type == "FixedLength") {
      read_fixed_length(part);
    } else {
      part.refuse();
    }
  }

 private:
  using Cuts = PreTokenizer::Cuts;
  using Pieces = std::vector<TextPiece>;
  using Storage = std::deque<std::string>;

  template <class Find>
  void add(Find find, SplitBehavior behavior, Cuts cuts) {
    push({[find = std::move(find), behavior](TextPiece whole, Pieces& pieces, Storage&) {
            append(whole, behaved(find(whole.text), behavior), pieces);
          },
          cuts});
  }

  template <class Matches>
  void add_characters(Matches matches, SplitBehavior behavior, Cuts cuts) {
    add([matches = std::move(matches)](std::string_view text) { return stretches_of_characters(text, matches); },
        behavior, cuts);
  }

  // Looks at single characters: what happens at a space hangs on its neighbours only where matches merge with others.
  template <class Matches>
  void add_local(Matches matches, SplitBehavior behavior) {
    const bool merges = behavior == SplitBehavior::merged_with_next || behavior == SplitBehavior::merged_with_previous;
    add_characters(std::move(matches), behavior, merges ? Cuts::lost : Cuts::kept);
  }

  // Runs of characters of one class are pieces, but for class 2, which is left out.
  template <class Class>
  void add_classes(Class class_of) {
    push({[class_of](TextPiece whole, Pieces& pieces, Storage&) {
            std::vector<Stretch> stretches;
            int previous = 2;
            for (std::size_t at = 0; at < whole.text.size();) {
              const std::size_t begin = at;
              const int own = class_of(next_code_point(whole.text, at));
              if (own != 2 && own == previous) {
                stretches.back().end = at;
              } else if (own != 2) {
                stretches.push_back({begin, at, true});
              }
              previous = own;
            }
            append(whole, stretches, pieces);
          },
          Cuts::made});
  }

  void add_rule(PieceRule rule) {
    to_.steps_.push_back({[cutter = PieceCutter(rule)](TextPiece whole, Pieces& pieces, Storage&) {
                            for (std::size_t begin = 0; begin < whole.text.size();) {
                              const std::size_t end = cutter.end_of_piece(whole.text, begin);
                              pieces.push_back(part_of(whole, begin, end));
                              begin = end;
                            }
                          },
                          Cuts::made});
  }

  // A pattern stays apart until another step follows it.
  void settle_rule() {
    if (const auto rule = std::exchange(to_.rule_, std::nullopt)) add_rule(*rule);
  }
  void push(PreTokenizer::Step step) {
    settle_rule();
    to_.steps_.push_back(std::move(step));
  }

  // The parts that follow see the letters of bytes.
  void write_letters() {
    push({[](TextPiece whole, Pieces& pieces, Storage& storage) {
            const std::size_t opening = to_byte_level(whole.text.substr(0, whole.opening)).size();
            pieces.push_back({storage.emplace_back(to_byte_level(whole.text)), opening});
          },
          Cuts::lost});
    to_.byte_level_ = false;
    to_.letters_ = true;
  }

  void read_byte_level(const TokenizerPart& part) {
    part.require_only({"add_prefix_space", "trim_offsets", "use_regex"});
    const bool uses_expression = part.flag("use_regex", true);
    to_.adds_space_ = part.flag("add_prefix_space", true);
    const bool first = to_.steps_.empty() && !to_.rule_;
    if (to_.adds_space_ && !first) {
      push({[](TextPiece whole, Pieces& pieces, Storage& storage) { pieces.push_back(with_space(whole, storage)); },
            Cuts::lost});
      to_.adds_space_ = false;
    }
    if (uses_expression) settle_rule();
    if (uses_expression) to_.rule_ = PieceRule::gpt2;
    if (!to_.rule_) to_.rule_ = PieceRule::whole_text;
    to_.byte_level_ = true;
  }

  void read_split(const TokenizerPart& part) {
    part.require_only({"pattern", "behavior", "invert"});
    auto [is_expression, pattern] = part.pattern();
    const SplitBehavior behavior = behavior_of(part, "");
    const bool invert = part.flag("invert", false);
    settle_rule();
    const auto rule = is_expression ? piece_rule(pattern) : std::nullopt;
    // These patterns match every character, so that nothing lies between matches.
    if (rule && (behavior == SplitBehavior::isolated || (behavior == SplitBehavior::removed && invert))) {
      to_.rule_ = rule;
      return;
    }
    const auto find = [&]() -> std::function<std::vector<Stretch>(std::string_view)> {
      if (!is_expression) {
        if (pattern.empty()) part.refuse("pattern");
        return [pattern = pattern](std::string_view text) {
          Stretches found(text);
          for (std::size_t at = 0; (at = text.find(pattern, at)) != std::string_view::npos; at += pattern.size())
            found.match(at, at + pattern.size());
          return found.finish();
        };
      }
      return [expression = RegularExpression(pattern, part.where())](std::string_view text) {
        Stretches found(text);
        expression.for_each(text, [&](std::size_t begin, std::size_t end) { found.match(begin, end); });
        return found.finish();
      };
    }();
    add(
        [find, invert](std::string_view text) {
          std::vector<Stretch> stretches = find(text);
          if (invert) {
            for (Stretch& stretch : stretches) stretch.matches = !stretch.matches;
          }
          return stretches;
        },
        behavior, Cuts::lost);
  }

  void read_metaspace(const TokenizerPart& part) {
    part.require_only({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    const char32_t replacement = part.character("replacement");
    std::string own;
    append_code_point(own, replacement);
    const std::string scheme = part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
    const bool is_known = scheme == "always" || scheme == "never" || (scheme == "first" && !to_.letters_);
    if (!is_known) part.refuse("prepend_scheme");
    const bool splits = part.flag("split", true);
    push({[own, scheme, splits](TextPiece whole, Pieces& pieces, Storage& storage) {
            std::string text;
            std::size_t opening = 0;
            for (std::size_t at = 0; at < whole.text.size(); ++at) {
              if (whole.text[at] == ' ') {
                text += own;
              } else {
                text.push_back(whole.text[at]);
              }
              if (at < whole.opening) opening = text.size();
            }
            if (!text.starts_with(own) && (scheme == "always" || (scheme == "first" && opening > 0))) {
              text.insert(0, own);
              if (opening > 0) opening += own.size();
            }
            whole = {storage.emplace_back(std::move(text)), opening};
            if (!splits) return pieces.push_back(whole);
            Stretches found(whole.text);
            for (std::size_t at = 0; (at = whole.text.find(own, at)) != std::string_view::npos; at += own.size())
              found.match(at, at + own.size());
            append(whole, behaved(found.finish(), SplitBehavior::merged_with_next), pieces);
          },
          splits ? Cuts::made : Cuts::lost});
  }

  void read_fixed_length(const TokenizerPart& part) {
    part.require_only({"length"});
    const std::size_t length = part.count("length");
    if (length == 0) part.refuse("length");
    push({[length](TextPiece whole, Pieces& pieces, Storage&) {
            std::size_t begin = 0;
            std::size_t at = 0;
            for (std::size_t count = 1; at < whole.text.size(); ++count) {
              next_code_point(whole.text, at);
              if (count % length != 0 && at < whole.text.size()) continue;
              pieces.push_back(part_of(whole, begin, at));
              begin = at;
            }
          },
          Cuts::lost});
  }

  PreTokenizer& to_;
};

PreTokenizer::PreTokenizer(const Json& pre_tokenizer, const std::string& where) {
  if (pre_tokenizer.is_null()) return;
  PreTokenizerReader(*this).read(TokenizerPart(pre_tokenizer, where));
}

void PreTokenizer::split(TextPiece text, std::vector<TextPiece>& pieces, std::deque<std::string>& storage) const {
  if (text.text.empty()) return;
  const std::size_t most = most_made_of(text.text);
  if (adds_space_) text = with_space(text, storage);
  std::vector<TextPiece> now{text};
  std::vector<TextPiece> next;
  for (const Step& step : steps_) {
    next.clear();
    std::size_t made = 0;
    for (std::size_t i = 0, counted = 0; i < now.size(); ++i) {
      step.split(now[i], next, storage);
      for (; counted < next.size(); ++counted) made += next[counted].text.size();
      if (made > most)
        fail(ExitCode::input,
             "the tokenizer's pre-tokenizers turn a text of {} bytes into more than {} bytes, the limit",
             text.text.size(), most);
    }
    std::swap(now, next);
  }
  if (!rule_ || *rule_ == PieceRule::whole_text) {
    pieces.insert(pieces.end(), now.begin(), now.end());
    return;
  }
  const PieceCutter cutter(*rule_);
  for (const TextPiece& piece : now) {
    for (std::size_t begin = 0; begin < piece.text.size();) {
      const std::size_t end = cutter.end_of_piece(piece.text, begin);
      pieces.push_back(part_of(piece, begin, end));
      begin = end;
    }
  }
}

// Behind a step that cuts before every space behind another character nothing looks across such a cut; a step before it
// must not either. A space, since nothing is put before it; a line end would get a prefix space where the tokenizer
// adds one.
std::size_t PreTokenizer::last_cut(std::string_view text) const {
  if (steps_.empty())
    return rule_ ? last_piece_cut(*rule_, adds_space_ ? CutBefore::space : CutBefore::space_or_line_end, text) : 0;
  const auto first = std::ranges::find_if(steps_, [](const Step& step) { return step.cuts != Cuts::kept; });
  const bool has_pattern = rule_ && *rule_ != PieceRule::whole_text;
  if (first == steps_.end() ? !has_pattern : first->cuts == Cuts::lost) return 0;
  return last_piece_cut(PieceRule::llama3, CutBefore::space, text);
}

}  // namespace lockstep
