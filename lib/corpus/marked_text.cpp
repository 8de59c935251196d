#include "corpus/marked_text.hpp"

#include "corpus/added_tokens.hpp"

#include <algorithm>

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
    std::vector<std::int32_t> whole, head;
    encode_(text_.text.substr(begin, end - begin), whole);
    std::vector<std::size_t> counts;  // of ids before the borders within
    for (std::size_t i = result.borders.size(); i < text_.borders.size() && text_.borders[i] < end; ++i) {
      head.clear();
      encode_(text_.text.substr(begin, text_.borders[i] - begin), head);
      if (!std::ranges::equal(head, std::span(whole).first(std::min(head.size(), whole.size())))) {
        plain(begin, text_.borders[i]);
        ++result.apart;
        return plain(text_.borders[i], end);
      }
      counts.push_back(result.ids.size() + head.size());
    }
    result.borders.insert(result.borders.end(), counts.begin(), counts.end());
    result.ids.insert(result.ids.end(), whole.begin(), whole.end());
  }

  void pass_borders(std::size_t place) {
    while (result.borders.size() < text_.borders.size() && text_.borders[result.borders.size()] <= place)
      result.borders.push_back(result.ids.size());
  }

  MarkedIds result;

 private:
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
