// Finds special tokens that the messages of a conversation spell out, such as "<|im_end|>" written by a user. Their
// places in the rendered text distinguish them from the template's own special tokens.
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

  /// The offsets in `text` at which a name begins. A name that only begins at the end of the text counts, because the
  /// next text may complete it.
  std::vector<std::size_t> found_in(std::string_view text) const;

 private:
  bool begins_at(std::string_view rest) const;

  std::vector<std::string> names_;
  std::array<bool, 256> is_lead_{};
};

/// `text` is the rendering of the conversation, with or without a generation prompt. Returns the characters in it that
/// come from messages, tools or variables of the conversation and at which a special token begins: ranges of one
/// character, ascending. The template is rendered again with these places marked. Throws Error(input) if the marks
/// change the rest of the text, because the places are then unknown.
std::vector<TextSpan> spelled_tokens(const Conversation& conversation, const ConversationFormat& format,
                                     const std::string& text, const SpecialNames& names,
                                     GenerationPrompt prompt = GenerationPrompt::absent);

}  // namespace lockstep
