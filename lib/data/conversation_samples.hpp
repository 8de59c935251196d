// Conversations of records as samples: for records of messages, and of prompts and completions that are messages. The
// text that a template makes is encoded as a whole; a token counts that begins within what counts, as transformers has
// it. Where what counts begins, what is before and behind is encoded apart, as the model meets a prompt when it
// answers; where it ends, a token may reach across.
#pragma once

#include "base/json.hpp"
#include "chat/spelled_tokens.hpp"
#include "corpus/json_records.hpp"
#include "corpus/tokenizer.hpp"
#include "data/message_format.hpp"
#include "data/sample_shape.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Reads records on one thread. `format` outlives it.
class ConversationSamples {
 public:
  ConversationSamples(const Tokenizer& tokenizer, const MessageFormat& format);

  const ConversationFormat& format() const { return format_.conversations; }

  /// A member of the record, also of text that spells it out, as tables of text have it; nothing if it is absent or
  /// null. Throws BadRecord.
  std::optional<Json> member(const simdjson::dom::object& record, std::string_view name);

  /// The conversation of these messages, with what stands beside them in the record: tools, system,
  /// chat_template_kwargs. `field`: the name of the messages. Throws BadRecord, Error(input) as conversation_of does.
  Conversation conversation(const simdjson::dom::object& record, Json messages, const std::string& field);

  /// `made`: the text of that conversation.
  Sample sample_of(const Conversation& conversation, const ConversationText& made);

  /// Encoder::left_out of all samples so far.
  std::uint64_t left_out() const { return encoder_->left_out(); }

 private:
  std::unique_ptr<Encoder> encoder_;
  const MessageFormat& format_;
  SpecialNames special_names_;
  PythonJsonParser parser_;  // of what text spells out
};

}  // namespace lockstep
