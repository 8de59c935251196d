// Added tokens, as added_tokens of a tokenizer.json lists them. They are found in text before anything else, as in the
// tokenizers library: the leftmost match, and of those at one place the longest. data.special_tokens says whether
// special tokens are recognised in text. Tokens that other files declare: tokenizer/declared_tokens.hpp.
#pragma once

#include "tokenizer/byte_trie.hpp"
#include "tokenizer/marked_text.hpp"
#include "tokenizer/special_tokens.hpp"

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
  bool normalized = false;   // searched after the others, in normalized text
  bool special = true;       // as opposed to a word that was added to the vocabulary
  bool single_word = false;  // does not match within a word
  bool lstrip = false;       // also takes the white space before it
  bool rstrip = false;       // also takes the white space after it
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// If two tokens have the same content, the first one counts. Empty contents are never found.
  AddedTokens(std::vector<AddedToken> tokens, SpecialTokens reading);

  /// Splits `text`: calls `token` with the id of each token found and `plain` with the text between them, in order.
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

  /// Splits `text` as cut() does, but always recognises special tokens, except where they touch a range of `literal`.
  /// Calls `token` with each token and its range, and `plain` with the ranges between.
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

  /// The length of the longest prefix of `text` that no token crosses the end of, for any text before and after `text`;
  /// 0 if there is none. For tokens without flags.
  std::size_t settled(std::string_view text) const;

  /// The contents of the special tokens.
  std::vector<std::string> special_names() const;

  bool empty() const { return tokens_.empty(); }

 private:
  /// The longest token at `at` in `text`, or null.
  const AddedToken* at(std::string_view text, std::size_t at) const;
  bool may_begin_before(std::string_view text, std::size_t cut) const;
  std::size_t next_lead(std::string_view text, std::size_t at) const;
  /// Returns the next token at or after `at`, and sets `place` to its range. Moves `at` past the token. Text before
  /// `done` belongs to earlier tokens, so lstrip does not reach into it. Null if there is none.
  const AddedToken* find(std::string_view text, SpecialTokens reading, std::span<const TextRange> literal,
                         std::size_t& at, std::size_t done, TextRange& place) const;

  std::vector<AddedToken> tokens_;
  SpecialTokens reading_ = SpecialTokens::special;
  ByteTrie by_content_;
  std::string leads_;  // first bytes of the contents
  std::array<bool, 256> is_lead_{};
};

}  // namespace lockstep
