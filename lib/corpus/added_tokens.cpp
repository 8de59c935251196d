#include "corpus/added_tokens.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace lockstep {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, SpecialTokens reading)
    : tokens_(std::move(tokens)), reading_(reading) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::ranges::stable_sort(tokens_, std::greater{}, [](const AddedToken& token) { return token.content.size(); });
  for (const AddedToken& token : tokens_) {
    if (leads_.find(token.content.front()) == std::string::npos) leads_.push_back(token.content.front());
  }
}

std::size_t AddedTokens::next_lead(std::string_view text, std::size_t at) const {
  if (leads_.empty()) return std::string_view::npos;
  return leads_.size() == 1 ? text.find(leads_.front(), at) : text.find_first_of(leads_, at);
}

const AddedToken* AddedTokens::at(std::string_view text, std::size_t at) const {
  const auto found = std::ranges::find_if(
      tokens_, [&](const AddedToken& candidate) { return text.substr(at).starts_with(candidate.content); });
  return found == tokens_.end() ? nullptr : &*found;
}

const AddedToken* AddedTokens::find(std::string_view text, std::size_t& at) const {
  while ((at = next_lead(text, at)) != std::string_view::npos) {
    const AddedToken* const token = this->at(text, at);
    const bool counts = token != nullptr && (!token->special || reading_ == SpecialTokens::special);
    if (counts) return token;
    at += token == nullptr ? 1 : token->content.size();  // what a token covers is not looked through again
  }
  return nullptr;
}

// Occurrences are not followed from the start on, for that lies elsewhere: a place is settled if none of them, whether
// it counts or is covered by another one, lies across it.
std::size_t AddedTokens::settled(std::string_view text) const {
  const std::size_t longest = tokens_.empty() ? 1 : tokens_.front().content.size();
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
