// Records of messages. The text that a template makes of them is encoded as a whole; a token counts that begins within
// what counts, as transformers has it. Where what counts begins, what is before and behind is encoded apart, as the
// model meets a prompt when it answers; where it ends, a token may reach across.
#include "base/error.hpp"
#include "base/json.hpp"
#include "chat/spelled_tokens.hpp"
#include "corpus/json_member.hpp"
#include "data/message_format.hpp"
#include "data/record_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

CountedTurns counted_turns(TrainOn train_on) {
  switch (train_on) {
    case TrainOn::completion: break;  // of another form
    case TrainOn::assistant: return CountedTurns::assistant;
    case TrainOn::last: return CountedTurns::last;
    case TrainOn::all: return CountedTurns::all;
  }
  fail(ExitCode::bug, "messages have no completion");
}

class MessageReader : public RecordReader {
 public:
  MessageReader(const Tokenizer& tokenizer, const RecordOptions& options, const MessageFormat& format)
      : encoder_(tokenizer.encoder()),
        format_(format),
        special_names_(tokenizer.special_names()),
        field_(options.messages_field),
        counted_(counted_turns(options.trained())) {}

  Sample read(const simdjson::dom::object& record) override {
    std::string field;
    Json messages = messages_of(record, field);
    const Conversation conversation =
        conversation_of({.messages = std::move(messages),
                         .tools = member(record, "tools").value_or(Json()),
                         .system = text_member(record, "system"),
                         .variables = member(record, "chat_template_kwargs").value_or(Json())},
                        field);
    const ConversationText made = text_of(conversation, format_.conversations, counted_);
    std::vector<TextRange> literal;
    if (format_.spelled == SpecialTokens::text)
      for (const TextSpan& place : spelled_tokens(conversation, format_.conversations, made.text, special_names_))
        literal.push_back({place.begin, place.end});
    return sample_of(made, literal);
  }

 private:
  /// Also of text that spells it out, as tables of text have it; nothing if it is absent or null.
  std::optional<Json> member(const simdjson::dom::object& record, std::string_view name) {
    auto value = member_of(record, name);
    if (!value || value->is_null()) return {};
    std::string_view text;
    if (value->get(text) == simdjson::SUCCESS &&
        parser_.parse(text.data(), text.size(), true).get(*value) != simdjson::SUCCESS)
      throw BadRecord{fmt::format("the text of {} is no JSON", name)};
    return json_of(*value);
  }

  Json text_member(const simdjson::dom::object& record, std::string_view name) {
    const auto value = member_of(record, name);
    return value ? json_of(*value) : Json();
  }

  Json messages_of(const simdjson::dom::object& record, std::string& field) {
    field = field_.value_or("messages");
    if (auto found = member(record, field)) return std::move(*found);
    if (!field_) {
      if (auto found = member(record, "conversations")) {
        field = "conversations";
        return std::move(*found);
      }
    }
    if (member_of(record, field)) throw BadRecord{fmt::format("{} is null", field)};
    refuse_field(record, field, "data.messages_field");
  }

  Sample sample_of(const ConversationText& made, const std::vector<TextRange>& literal) {
    std::vector<TextBorder> borders;
    for (const TextSpan& span : made.counted) {
      if (span.begin > 0) borders.push_back({span.begin, AcrossBorder::apart});
      if (span.end < made.text.size()) borders.push_back({span.end, AcrossBorder::whole});
    }
    MarkedIds ids = encoder_->encode_marked({made.text, literal, borders});
    Sample sample{.ids = std::move(ids.ids),
                  .end_counts = made.counts_at_end,
                  .text_bytes = made.text.size(),
                  .apart = ids.apart};
    sample.mask.resize(sample.ids.size(), 0);
    auto border = ids.borders.begin();
    for (const TextSpan& span : made.counted) {
      const std::size_t begin = span.begin > 0 ? *border++ : 0;
      const std::size_t end = span.end < made.text.size() ? *border++ : sample.ids.size();
      std::fill(sample.mask.begin() + static_cast<std::ptrdiff_t>(begin),
                sample.mask.begin() + static_cast<std::ptrdiff_t>(end), std::uint8_t{1});
    }
    return sample;
  }

  std::unique_ptr<Encoder> encoder_;
  const MessageFormat& format_;
  SpecialNames special_names_;
  std::optional<std::string> field_;
  CountedTurns counted_;
  simdjson::dom::parser parser_;  // of what text spells out
};

}  // namespace

std::unique_ptr<RecordReader> message_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                             const MessageFormat& format) {
  return std::make_unique<MessageReader>(tokenizer, options, format);
}

}  // namespace lockstep
