// Tokens that are found in text before anything else, as added_tokens of a tokenizer.json lists them: leftmost, the
// longest first. The tokenizers library reads them so; which of them count is data.special_tokens.
#pragma once

#include "config/special_tokens.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool normalized = false;  // such tokens are looked for after the others
  bool special = true;      // as opposed to a word that was added to the vocabulary
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, SpecialTokens reading);

  /// Calls `token` with the id of each token in `text` and `plain` with what lies between them, in order.
  template <class Plain, class Token>
  void cut(std::string_view text, const Plain& plain, const Token& token) const {
    std::size_t begin = 0;
    for (std::size_t at = 0; const AddedToken* const found = find(text, at);) {
      if (at > begin) plain(text.substr(begin, at - begin));
      token(found->id);
      at += found->content.size();
      begin = at;
    }
    if (begin < text.size()) plain(text.substr(begin));
  }

  /// The longest head of `text` that no token reaches beyond, whatever stands before and behind `text`; 0 if there is
  /// none.
  std::size_t settled(std::string_view text) const;

 private:
  /// The longest token that `text` has at `at`, or null.
  const AddedToken* at(std::string_view text, std::size_t at) const;
  bool may_begin_before(std::string_view text, std::size_t cut) const;
  std::size_t next_lead(std::string_view text, std::size_t at) const;
  /// The next token that counts, from `at` on, which moves to where it begins; null if there is none.
  const AddedToken* find(std::string_view text, std::size_t& at) const;

  std::vector<AddedToken> tokens_;  // the longest first
  SpecialTokens reading_ = SpecialTokens::special;
  std::string leads_;  // their first bytes
};

}  // namespace lockstep
