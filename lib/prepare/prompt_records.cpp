// Records of a prompt and its completion, both texts (prepare/prompt_samples.hpp) or both lists of messages. Of
// messages a template makes one text; the completion is what follows the text of the prompt with a generation prompt.
#include "base/json_member.hpp"
#include "prepare/conversation_samples.hpp"
#include "prepare/prompt_samples.hpp"
#include "prepare/record_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

namespace {

class PromptReader : public RecordReader {
 public:
  PromptReader(const Tokenizer& tokenizer, const RecordOptions& options, const MessageFormat* messages)
      : samples_(tokenizer, options),
        prompt_field_(options.prompt_field.value()),
        completion_field_(options.completion_field.value()),
        names_template_(options.chat_template.has_value()) {
    if (messages != nullptr) conversations_.emplace(tokenizer, *messages);
  }

  Sample read(const simdjson::dom::object& record) override {
    const simdjson::dom::element prompt = member(record, prompt_field_, "data.prompt_field");
    const simdjson::dom::element completion = member(record, completion_field_, "data.completion_field");
    if (prompt.is_array() && completion.is_array()) return of_messages(record, prompt, completion);
    if (prompt.is_array() || completion.is_array())
      throw BadRecord{fmt::format("only one of '{}' and '{}' is a list of messages", prompt_field_, completion_field_)};
    if (names_template_)
      throw BadRecord{
          fmt::format("'{}' is not a list of messages, but data.chat_template needs messages", prompt_field_),
          "leave data.chat_template out if prompts are text"};
    return samples_.sample_of(text_of_field(record, prompt_field_, "data.prompt_field"),
                              text_of_field(record, completion_field_, "data.completion_field"));
  }
  std::uint64_t left_out() const override {
    return samples_.left_out() + (conversations_ ? conversations_->left_out() : 0);
  }

 private:
  static simdjson::dom::element member(const simdjson::dom::object& record, const std::string& field,
                                       const std::string& option) {
    const auto value = member_of(record, field);
    if (!value) refuse_field(record, field, option);
    return *value;
  }

  Sample of_messages(const simdjson::dom::object& record, const simdjson::dom::element& prompt,
                     const simdjson::dom::element& completion) {
    if (!conversations_)
      throw BadRecord{fmt::format("'{}' is a list of messages, but the tokenizer has no chat template that can be used",
                                  prompt_field_),
                      "name one with --data.chat_template PATH"};
    Conversation whole = conversations_->conversation(record, json_of(prompt), prompt_field_);
    const std::size_t of_prompt = whole.messages.size();
    Conversation answer = conversation_of({.messages = json_of(completion), .tools = {}, .system = {}, .variables = {}},
                                          completion_field_);
    for (Json& message : answer.messages) whole.messages.push_back(std::move(message));
    Sample sample = conversations_->sample_of(whole, text_with_completion(whole, of_prompt, conversations_->format()));
    if (samples_.trains_on_all()) std::ranges::fill(sample.mask, std::uint8_t{1});
    sample.ends_itself = true;
    return sample;
  }

  PromptSamples samples_;
  std::string prompt_field_, completion_field_;
  bool names_template_;
  std::optional<ConversationSamples> conversations_;  // where there is a template
};

}  // namespace

std::unique_ptr<RecordReader> prompt_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                            const MessageFormat* messages) {
  return std::make_unique<PromptReader>(tokenizer, options, messages);
}

}  // namespace lockstep
