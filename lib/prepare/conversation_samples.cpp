#include "prepare/conversation_samples.hpp"

#include "base/json_member.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {

ConversationSamples::ConversationSamples(const Tokenizer& tokenizer, const MessageFormat& format)
    : encoder_(tokenizer.encoder()), format_(format), special_names_(tokenizer.special_names()) {}

std::optional<Json> ConversationSamples::member(const simdjson::dom::object& record, std::string_view name) {
  auto value = member_of(record, name);
  if (!value || value->is_null()) return {};
  std::string_view text;
  if (value->get(text) == simdjson::SUCCESS &&
      parser_.parse(text, PythonJsonParser::Padding::absent, *value) != simdjson::SUCCESS)
    throw BadRecord{fmt::format("the text of {} is not JSON", name)};
  return json_of(*value);
}

Conversation ConversationSamples::conversation(const simdjson::dom::object& record, Json messages,
                                               const std::string& field) {
  const auto system = member_of(record, "system");
  return conversation_of({.messages = std::move(messages),
                          .tools = member(record, "tools").value_or(Json()),
                          .system = system ? json_of(*system) : Json(),
                          .variables = member(record, "chat_template_kwargs").value_or(Json())},
                         field);
}

Sample ConversationSamples::sample_of(const Conversation& conversation, const ConversationText& made) {
  std::vector<TextRange> literal;
  if (format_.spelled == SpecialTokens::text)
    for (const TextSpan& place : spelled_tokens(conversation, format_.conversations, made.text, special_names_))
      literal.push_back({place.begin, place.end});
  std::vector<TextBorder> borders;
  for (const TextSpan& span : made.counted) {
    if (span.begin > 0) borders.push_back({span.begin, AcrossBorder::apart});
    if (span.end < made.text.size()) borders.push_back({span.end, AcrossBorder::whole});
  }
  MarkedIds ids = encoder_->encode_marked({made.text, literal, borders});
  Sample sample{
      .ids = std::move(ids.ids), .end_counts = made.counts_at_end, .text_bytes = made.text.size(), .apart = ids.apart};
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

}  // namespace lockstep
