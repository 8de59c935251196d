// Records of messages.
#include "base/error.hpp"
#include "base/json_member.hpp"
#include "prepare/conversation_samples.hpp"
#include "prepare/record_reader.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace lockstep {

namespace {

TrainedTurns counted_turns(TrainOn train_on) {
  switch (train_on) {
    case TrainOn::completion: break;  // of another form
    case TrainOn::assistant: return TrainedTurns::assistant;
    case TrainOn::last: return TrainedTurns::last;
    case TrainOn::all: return TrainedTurns::all;
  }
  fail(ExitCode::bug, "messages have no completion");
}

class MessageReader : public RecordReader {
 public:
  MessageReader(const Tokenizer& tokenizer, const RecordOptions& options, const MessageFormat& format)
      : samples_(tokenizer, format), field_(options.messages_field), counted_(counted_turns(options.trained())) {}

  Sample read(const simdjson::dom::object& record) override {
    std::string field;
    Json messages = messages_of(record, field);
    const Conversation conversation = samples_.conversation(record, std::move(messages), field);
    return samples_.sample_of(conversation, text_of(conversation, samples_.format(), counted_));
  }
  std::uint64_t left_out() const override { return samples_.left_out(); }

 private:
  Json messages_of(const simdjson::dom::object& record, std::string& field) {
    field = field_.value_or("messages");
    if (auto found = samples_.member(record, field)) return std::move(*found);
    if (!field_) {
      if (auto found = samples_.member(record, "conversations")) {
        field = "conversations";
        return std::move(*found);
      }
    }
    if (member_of(record, field)) refuse_null(field);
    refuse_field(record, field, "data.messages_field");
  }

  ConversationSamples samples_;
  std::optional<std::string> field_;
  TrainedTurns counted_;
};

}  // namespace

std::unique_ptr<RecordReader> message_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                             const MessageFormat& format) {
  return std::make_unique<MessageReader>(tokenizer, options, format);
}

}  // namespace lockstep
