// Special tokens that the messages of a conversation spell out, such as "<|im_end|>" in what a user says: where they
// stand in the text that a template makes, so that these are told from the template's own.
#pragma once

#include "chat/conversation_text.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The special tokens of a tokenizer, by their text.
class SpecialNames {
 public:
  explicit SpecialNames(std::vector<std::string> names);

  /// Where in `text` one of them begins, or may begin and go on in what comes behind the text.
  std::vector<std::size_t> found_in(std::string_view text) const;

 private:
  bool begins_at(std::string_view rest) const;

  std::vector<std::string> names_;
  std::array<bool, 256> is_lead_{};
};

/// The places in `text`, which the format makes of the conversation, of characters that messages or tools wrote and at
/// which a special token begins; each is one character, ascending. The template is asked again with these places
/// marked. Throws Error(input) where it then makes another text, so that places cannot be told.
std::vector<TextSpan> spelled_tokens(const Conversation& conversation, const ConversationFormat& format,
                                     const std::string& text, const SpecialNames& names);

}  // namespace lockstep
