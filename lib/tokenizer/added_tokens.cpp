#include "tokenizer/added_tokens.hpp"

#include "unicode/unicode.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

bool ends_in_word(std::string_view text) {
  const std::optional<char32_t> last = last_code_point(text);
  return last && has(*last, CodePointFlag::word);
}

bool begins_with_word(std::string_view text) {
  std::size_t behind = 0;
  return !text.empty() && has(next_code_point(text, behind), CodePointFlag::word);
}

// Where the white space at the end of `text` begins.
std::size_t begin_of_last_space(std::string_view text) {
  while (const std::optional<char32_t> last = last_code_point(text)) {
    if (!is_white_space(*last)) break;
    std::string bytes;
    append_code_point(bytes, *last);
    text.remove_suffix(bytes.size());
  }
  return text.size();
}

// How much white space `text` begins with.
std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t behind = at;
    if (!is_white_space(next_code_point(text, behind))) break;
    at = behind;
  }
  return at;
}

bool touches(std::span<const TextRange> ranges, TextRange place) {
  const auto first = std::ranges::upper_bound(ranges, place.begin, {}, &TextRange::end);  // that ends behind it
  return first != ranges.end() && first->begin < place.end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, SpecialTokens reading)
    : tokens_(std::move(tokens)), reading_(reading) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  for (std::size_t i = tokens_.size(); i-- > 0;) {
    const std::string& content = tokens_[i].content;
    by_content_.insert(content, static_cast<std::int32_t>(i));
    bool& is_lead = is_lead_[static_cast<std::uint8_t>(content.front())];
    if (!is_lead) leads_.push_back(content.front());
    is_lead = true;
  }
}

std::vector<std::string> AddedTokens::special_names() const {
  std::vector<std::string> names;
  for (const AddedToken& token : tokens_)
    if (token.special) names.push_back(token.content);
  return names;
}

std::size_t AddedTokens::next_lead(std::string_view text, std::size_t at) const {
  if (leads_.empty()) return std::string_view::npos;
  if (leads_.size() == 1) return text.find(leads_.front(), at);
  while (at < text.size() && !is_lead_[static_cast<std::uint8_t>(text[at])]) ++at;
  return at < text.size() ? at : std::string_view::npos;
}

const AddedToken* AddedTokens::at(std::string_view text, std::size_t at) const {
  const ByteTrie::Match match = by_content_.longest(text.substr(at));
  return match.number == ByteTrie::none ? nullptr : &tokens_[static_cast<std::size_t>(match.number)];
}

const AddedToken* AddedTokens::find(std::string_view text, SpecialTokens reading, std::span<const TextRange> literal,
                                    std::size_t& at, std::size_t done, TextRange& place) const {
  while ((at = next_lead(text, at)) != std::string_view::npos) {
    const AddedToken* const token = this->at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    place = {at, at + token->content.size()};
    at = place.end;  // what a token covers is not looked through again
    if (token->special && (reading == SpecialTokens::text || touches(literal, place))) continue;
    if (token->single_word && (ends_in_word(text.substr(0, place.begin)) || begins_with_word(text.substr(place.end))))
      continue;
    if (token->lstrip) place.begin = std::max(begin_of_last_space(text.substr(0, place.begin)), done);
    if (token->rstrip) place.end += leading_space(text.substr(place.end));
    return token;
  }
  return nullptr;
}

// Occurrences are not followed from the start on, for that lies elsewhere: a place is settled if none of them, whether
// it counts or is covered by another one, lies across it.
std::size_t AddedTokens::settled(std::string_view text) const {
  std::size_t longest = 1;
  for (const AddedToken& token : tokens_) longest = std::max(longest, token.content.size());
  std::size_t cut = text.size();
  for (std::size_t at = cut; at > 0 && cut - at < longest - 1;) {
    const std::string_view rest = text.substr(--at);
    const bool reaches_beyond = std::ranges::any_of(tokens_, [&](const AddedToken& token) {
      const std::size_t seen = std::min(token.content.size(), rest.size());
      return at + token.content.size() > cut && rest.substr(0, seen) == std::string_view(token.content).substr(0, seen);
    });
    if (reaches_beyond) cut = at;
  }
  return may_begin_before(text, cut) ? 0 : cut;
}

/// Whether a token that begins before `text` may reach beyond `cut`.
bool AddedTokens::may_begin_before(std::string_view text, std::size_t cut) const {
  return std::ranges::any_of(tokens_, [&](const AddedToken& token) {
    for (std::size_t before = 1; before + cut < token.content.size(); ++before) {
      const std::string_view part = std::string_view(token.content).substr(before);
      const std::size_t seen = std::min(part.size(), text.size());
      if (part.substr(0, seen) == text.substr(0, seen)) return true;
    }
    return false;
  });
}

}  // namespace lockstep
