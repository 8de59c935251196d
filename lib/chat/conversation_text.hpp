// Renders a conversation by a chat template and finds the ranges to train on, usually the assistant's turns.
// {% generation %} marks the turns if the template has it. Otherwise each turn is found by rendering the messages
// before it; a template may drop the head of earlier turns, their reasoning. Special tokens that messages spell out
// remain text: chat/spelled_tokens.hpp.
#pragma once

#include "chat/conversation.hpp"
#include "jinja/chat_template.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// TrainedTurns says which parts of a conversation count, that is, are trained on.
enum class TrainedTurns {
  assistant,  // the assistant's turns, except messages of weight 0
  last,       // only the assistant's last message
  all,        // the whole text, except messages of weight 0
};

struct ConversationText {
  std::string text;
  std::vector<TextSpan> counted = {};  // ascending, disjoint, not adjacent, not empty
  bool counts_at_end = false;          // the last message counts
};

enum class GenerationPrompt { absent, added };

/// The templates of a model, and their variables other than messages and tools.
struct ConversationFormat {
  ChatTemplate chat;
  Json variables;
  std::optional<ChatTemplate> with_tools = {};  // replaces `chat` for conversations with tools

  const ChatTemplate& chat_of(const Conversation& conversation) const {
    return with_tools && !conversation.tools.is_null() ? *with_tools : chat;
  }

  /// Renders the first `count` messages, as ChatTemplate::render. Variables of the conversation override those of the
  /// format.
  RenderedChat render(const Conversation& conversation, std::size_t count, GenerationPrompt prompt) const;
};

/// Renders the whole conversation and finds the ranges that count. Local, from any thread. Throws Error(input) if the
/// template fails, if neither {% generation %} nor renderings of the first messages identify the assistant's turns, or
/// if a message of another role has a weight that contradicts `counted`.
ConversationText text_of(const Conversation& conversation, const ConversationFormat& format, TrainedTurns counted);

/// Renders a prompt, the first `prompt` messages, and its completion, the other messages. The completion counts: the
/// text after that of the prompt with a generation prompt. Local, from any thread. Throws Error(input) if the template
/// fails, or if the whole text does not begin with that of the prompt.
ConversationText text_with_completion(const Conversation& conversation, std::size_t prompt,
                                      const ConversationFormat& format);

}  // namespace lockstep
