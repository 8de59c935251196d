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

std::size_t AddedTokens::settled(std::string_view text) const {
  std::size_t at = 0;
  while ((at = next_lead(text, at)) != std::string_view::npos) {
    const std::string_view rest = text.substr(at);
    const bool open = std::ranges::any_of(tokens_, [&](const AddedToken& token) {
      return token.content.size() > rest.size() && std::string_view(token.content).starts_with(rest);
    });
    if (open) return at;
    const AddedToken* const token = this->at(text, at);
    at += token == nullptr ? 1 : token->content.size();
  }
  return text.size();
}

}  // namespace lockstep
