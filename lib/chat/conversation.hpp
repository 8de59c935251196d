// Conversations of records: messages with roles, in the form of OpenAI or of ShareGPT. Their text and the assistant's
// turns in it: chat/conversation_text.hpp.
#pragma once

#include "base/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

struct Conversation {
  Json messages;                    // an array of objects with a role, in the form that templates take
  Json tools;                       // an array; null: none
  Json variables = Json::object();  // additional variables of the template for this conversation
};

/// The parts of a record that form a conversation. Null: the record has no such member.
struct ConversationRecord {
  Json messages;  // an array of objects with `role`, or with `from` and `value`
  Json tools;
  Json system;     // a text: the system message, if no message has this role; empty: none
  Json variables;  // an object: chat_template_kwargs of transformers
};

/// Messages with `from` and `value` get OpenAI's names, and a `function_call` of the assistant becomes its tool_calls.
/// Other members of messages stay unchanged; null members are dropped, as in transformers. `field`: the name of the
/// messages, for error messages. Pure. Throws Error(input) if the record is not a conversation of text: unknown roles
/// of ShareGPT, images and other parts of content, a weight other than 0 or 1, two system messages, or variables that
/// templates get from the conversation.
Conversation conversation_of(ConversationRecord record, const std::string& field);

/// Whether the assistant writes this message, and whether its weight is 1 or not set.
bool is_of_assistant(const Json& message);
bool has_weight(const Json& message);

}  // namespace lockstep
