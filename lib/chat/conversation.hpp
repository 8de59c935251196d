// Conversations as records have them: messages with roles, in the form of OpenAI or of ShareGPT. As text, with what the
// assistant writes in it: chat/conversation_text.hpp.
#pragma once

#include "base/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

struct Conversation {
  Json messages;  // an array of objects with a role, as a template takes them
  Json tools;     // an array; null: there are none
};

/// Of `messages`, an array of objects with `role`, or with `from` and `value`, which are named as in OpenAI's form
/// then; everything else in them stays as it is, but for what is null, which transformers drops as well. `field`: its
/// name, for messages. Pure. Throws Error(input) for what is no conversation of text: unknown roles of ShareGPT, images
/// and other parts of content, a weight that is not 0 or 1.
Conversation conversation_of(Json messages, Json tools, const std::string& field);

/// Whether the assistant writes this message, and whether its weight lets it count.
bool is_of_assistant(const Json& message);
bool has_weight(const Json& message);

}  // namespace lockstep
