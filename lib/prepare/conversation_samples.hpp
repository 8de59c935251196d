// Turns conversations into samples, for records of messages and for prompts and completions that are
// messages. The rendered text is encoded as a whole. A token counts as a label if it begins within a counted span, as
// in transformers. Where a counted span begins, the text before and the text after the border are encoded separately,
// as when a model reads a prompt and answers. A token may reach across the end of a span. The rendering:
// chat/conversation_text.hpp.
#pragma once

#include "base/json.hpp"
#include "chat/spelled_tokens.hpp"
#include "prepare/message_format.hpp"
#include "prepare/sample_shape.hpp"
#include "readers/json_records.hpp"
#include "tokenizer/tokenizer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Reads records on one thread. `format` must outlive it.
class ConversationSamples {
 public:
  ConversationSamples(const Tokenizer& tokenizer, const MessageFormat& format);

  const ConversationFormat& format() const { return format_.conversations; }

  /// Returns a member of the record. If the member is text, as in tables, that text is parsed as JSON. Returns nothing
  /// if the member is missing or null. Throws BadRecord.
  std::optional<Json> member(const simdjson::dom::object& record, std::string_view name);

  /// Returns the conversation of these messages with the record's members tools, system and chat_template_kwargs.
  /// `field` is the name of the messages. Throws BadRecord; Error(input) as conversation_of does.
  Conversation conversation(const simdjson::dom::object& record, Json messages, const std::string& field);

  /// Returns the sample of a conversation whose rendered text is `made`.
  Sample sample_of(const Conversation& conversation, const ConversationText& made);

  /// Returns the sum of Encoder::left_out over all samples so far.
  std::uint64_t left_out() const { return encoder_->left_out(); }

 private:
  std::unique_ptr<Encoder> encoder_;
  const MessageFormat& format_;
  SpecialNames special_names_;
  PythonJsonParser parser_;  // for members that are text
};

}  // namespace lockstep
