#include "tokenizer/marked_text.hpp"

#include "tokenizer/added_tokens.hpp"

#include <algorithm>
#include <optional>

namespace lockstep {

namespace {

class PartEncoder {
 public:
  PartEncoder(const MarkedText& text, const EncodePart& encode) : text_(text), encode_(encode) {}

  void token(std::int32_t id, TextRange place) {
    pass_borders(place.begin);
    result.ids.push_back(id);
    pass_borders(place.end);
  }

  void plain(std::size_t begin, std::size_t end) {
    pass_borders(begin);
    std::vector<std::int32_t> whole;
    encode_(text_.text.substr(begin, end - begin), whole);
    std::vector<std::size_t> counts;  // of ids before the borders within
    for (std::size_t i = result.borders.size(); i < text_.borders.size() && text_.borders[i].at < end; ++i) {
      const auto [at, across] = text_.borders[i];
      std::optional<std::size_t> before = ids_of_head(begin, at, whole);
      if (!before && across == AcrossBorder::apart) {
        plain(begin, at);
        ++result.apart;
        return plain(at, end);
      }
      for (std::size_t cut = at; !before;) {  // back to where the token that reaches across begins
        do --cut;
        while (cut > begin && is_continuation(text_.text[cut]));
        if (const auto shorter = ids_of_head(begin, cut, whole)) before = std::min(*shorter + 1, whole.size());
      }
      counts.push_back(result.ids.size() + *before);
    }
    result.borders.insert(result.borders.end(), counts.begin(), counts.end());
    result.ids.insert(result.ids.end(), whole.begin(), whole.end());
  }

  void pass_borders(std::size_t place) {
    while (result.borders.size() < text_.borders.size() && text_.borders[result.borders.size()].at <= place)
      result.borders.push_back(result.ids.size());
  }

  MarkedIds result;

 private:
  static bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

  /// How many ids the text in [begin, end) has, if those of `whole` begin with them.
  std::optional<std::size_t> ids_of_head(std::size_t begin, std::size_t end, const std::vector<std::int32_t>& whole) {
    head_.clear();
    if (end > begin) encode_(text_.text.substr(begin, end - begin), head_);
    if (head_.size() > whole.size() || !std::ranges::equal(head_, std::span(whole).first(head_.size()))) return {};
    return head_.size();
  }

  std::vector<std::int32_t> head_;
  const MarkedText& text_;
  const EncodePart& encode_;
};

}  // namespace

MarkedIds encode_marked_parts(const MarkedText& text, const AddedTokens& added, const EncodePart& encode) {
  PartEncoder parts(text, encode);
  added.cut_marked(
      text.text, text.literal, [&](TextRange place) { parts.plain(place.begin, place.end); },
      [&](const AddedToken& token, TextRange place) { parts.token(token.id, place); });
  parts.pass_borders(text.text.size());
  return std::move(parts.result);
}

}  // namespace lockstep
