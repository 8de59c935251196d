// Tokens that are found in text before anything else, as added_tokens of a tokenizer.json lists them: leftmost, the
// longest first. The tokenizers library reads them so; which of them count is data.special_tokens.
#pragma once

#include "config/special_tokens.hpp"
#include "corpus/byte_trie.hpp"
#include "corpus/marked_text.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool normalized = false;   // such tokens are looked for after the others, in normalized text
  bool special = true;       // as opposed to a word that was added to the vocabulary
  bool single_word = false;  // not as a part of a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and that behind it
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Of two with one content the first counts. Empty contents are never found.
  AddedTokens(std::vector<AddedToken> tokens, SpecialTokens reading);

  /// Calls `token` with the id of each token in `text` and `plain` with what lies between them, in order.
  template <class Plain, class Token>
  void cut(std::string_view text, const Plain& plain, const Token& token) const {
    std::size_t done = 0;
    TextRange place;
    for (std::size_t at = 0; const AddedToken* const found = find(text, reading_, {}, at, done, place);) {
      if (place.begin > done) plain(text.substr(done, place.begin - done));
      token(found->id);
      done = place.end;
    }
    if (done < text.size()) plain(text.substr(done));
  }

  /// The same where special tokens count whatever was said, but for those that touch `literal`: calls `token` with each
  /// and its place, and `plain` with the places between.
  template <class Plain, class Token>
  void cut_marked(std::string_view text, std::span<const TextRange> literal, const Plain& plain,
                  const Token& token) const {
    std::size_t done = 0;
    TextRange place;
    for (std::size_t at = 0;
         const AddedToken* const found = find(text, SpecialTokens::special, literal, at, done, place);) {
      if (place.begin > done) plain(TextRange{done, place.begin});
      token(*found, place);
      done = place.end;
    }
    if (done < text.size()) plain(TextRange{done, text.size()});
  }

  /// The longest head of `text` that no token reaches beyond, whatever stands before and behind `text`; 0 if there is
  /// none. For tokens without flags.
  std::size_t settled(std::string_view text) const;

  /// The contents of those that are special.
  std::vector<std::string> special_names() const;

  bool empty() const { return tokens_.empty(); }

 private:
  /// The longest token that `text` has at `at`, or null.
  const AddedToken* at(std::string_view text, std::size_t at) const;
  bool may_begin_before(std::string_view text, std::size_t cut) const;
  std::size_t next_lead(std::string_view text, std::size_t at) const;
  /// The next token that counts, from `at` on, which moves behind it, and its place; what is before `done` is taken.
  /// Null if there is none.
  const AddedToken* find(std::string_view text, SpecialTokens reading, std::span<const TextRange> literal,
                         std::size_t& at, std::size_t done, TextRange& place) const;

  std::vector<AddedToken> tokens_;
  SpecialTokens reading_ = SpecialTokens::special;
  ByteTrie by_content_;
  std::string leads_;  // their first bytes
  std::array<bool, 256> is_lead_{};
};

}  // namespace lockstep
