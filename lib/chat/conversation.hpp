// Conversations as records have them: messages with roles, in the form of OpenAI or of ShareGPT. As text, with what the
// assistant writes in it: chat/conversation_text.hpp.
#pragma once

#include "base/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

struct Conversation {
  Json messages;                    // an array of objects with a role, as a template takes them
  Json tools;                       // an array; null: there are none
  Json variables = Json::object();  // that this conversation's template sees besides
};

/// What a record holds of a conversation; null: it has no such member.
struct ConversationRecord {
  Json messages;  // an array of objects with `role`, or with `from` and `value`
  Json tools;
  Json system;     // a text: what the system says first, where no message does; empty: nothing
  Json variables;  // an object: what transformers calls chat_template_kwargs
};

/// Messages with `from` and `value` are named as in OpenAI's form then, and what the assistant calls (`function_call`)
/// becomes its tool_calls; everything else in messages stays as it is, but for what is null, which transformers drops
/// as well. `field`: the name of the messages, for people. Pure. Throws Error(input) for what is no conversation of
/// text: unknown roles of ShareGPT, images and other parts of content, a weight that is not 0 or 1, two system messages
/// at once, variables that templates have otherwise.
Conversation conversation_of(ConversationRecord record, const std::string& field);

/// Whether the assistant writes this message, and whether its weight lets it count.
bool is_of_assistant(const Json& message);
bool has_weight(const Json& message);

}  // namespace lockstep
