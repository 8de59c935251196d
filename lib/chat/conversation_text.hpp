// A conversation as the text that a template makes of it, with what of it counts: what the assistant writes. Turns are
// told by {% generation %} where the template has it, or else by rendering the messages before each; of earlier turns a
// template may leave out the head, its reasoning. What messages spell of special tokens is found as well, so that it
// stays text: chat/spelled_tokens.hpp.
#pragma once

#include "chat/chat_template.hpp"
#include "chat/conversation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// CountedTurns says what of a conversation counts.
enum class CountedTurns {
  assistant,  // what the assistant writes, but for messages of weight 0
  last,       // of the assistant's last message alone
  all,        // the whole text, but for messages of weight 0
};

struct ConversationText {
  std::string text;
  std::vector<TextSpan> counted = {};  // ascending, apart from each other, none of them empty
  bool counts_at_end = false;          // the last message counts
};

enum class GenerationPrompt { absent, added };

/// The templates of a model, and what they see besides messages and tools.
struct ConversationFormat {
  ChatTemplate chat;
  Json variables;
  std::optional<ChatTemplate> with_tools = {};  // takes the place of `chat` for conversations with tools

  const ChatTemplate& chat_of(const Conversation& conversation) const {
    return with_tools && !conversation.tools.is_null() ? *with_tools : chat;
  }

  /// The first `count` messages, as ChatTemplate::render. A variable of the conversation goes before one of the format.
  RenderedChat render(const Conversation& conversation, std::size_t count, GenerationPrompt prompt) const;
};

/// Local, from any thread. Throws Error(input) for what the template refuses, and where neither its {% generation %}
/// nor renderings of the first messages tell what the assistant writes.
ConversationText text_of(const Conversation& conversation, const ConversationFormat& format, CountedTurns counted);

/// The text of a prompt, the first `prompt` messages, and its completion, the others. The completion counts: what
/// follows the text of the prompt with a generation prompt. Local, from any thread. Throws Error(input) for what the
/// template refuses, and where the whole text does not begin with that of the prompt.
ConversationText text_with_completion(const Conversation& conversation, std::size_t prompt,
                                      const ConversationFormat& format);

}  // namespace lockstep
