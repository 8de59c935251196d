// Records of a prompt and its completion, both texts or both lists of messages. Texts are encoded as a whole, and the
// completion is what is behind the ids of the prompt alone, as TRL has it; where a token would reach across, TRL warns,
// and here both are encoded apart, as the model meets the prompt when it answers. Of messages a template makes one
// text; the completion is what follows the text of the prompt with a generation prompt.
#include "base/json_member.hpp"
#include "prepare/conversation_samples.hpp"
#include "prepare/record_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

class PromptReader : public RecordReader {
 public:
  PromptReader(const Tokenizer& tokenizer, const RecordOptions& options, const MessageFormat* messages)
      : encoder_(tokenizer.encoder()),
        special_tokens_(tokenizer.special_tokens()),
        prompt_field_(options.prompt_field.value()),
        completion_field_(options.completion_field.value()),
        trains_on_all_(options.trained() == TrainOn::all),
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
    text_ = text_of(prompt, prompt_field_);
    const std::array<TextBorder, 1> border{TextBorder{text_.size()}};
    text_ += text_of(completion, completion_field_);
    const std::array<TextRange, 1> all{TextRange{0, text_.size()}};
    MarkedText marked{text_, {}, border};
    if (special_tokens_ == SpecialTokens::text) marked.literal = all;
    MarkedIds made = encoder_->encode_marked(marked);
    Sample sample{.ids = std::move(made.ids), .end_counts = true, .text_bytes = text_.size(), .apart = made.apart};
    sample.mask.resize(sample.ids.size(), 1);
    if (!trains_on_all_)
      std::fill_n(sample.mask.begin(), static_cast<std::ptrdiff_t>(made.borders[0]), std::uint8_t{0});
    return sample;
  }
  std::uint64_t left_out() const override {
    return encoder_->left_out() + (conversations_ ? conversations_->left_out() : 0);
  }

 private:
  static simdjson::dom::element member(const simdjson::dom::object& record, const std::string& field,
                                       const std::string& option) {
    const auto value = member_of(record, field);
    if (!value) refuse_field(record, field, option);
    return *value;
  }

  static std::string_view text_of(const simdjson::dom::element& value, const std::string& field) {
    if (value.is_null()) refuse_null(field);
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) throw BadRecord{fmt::format("the field '{}' is not text", field)};
    return text;
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
    if (trains_on_all_) std::ranges::fill(sample.mask, std::uint8_t{1});
    sample.ends_itself = true;
    return sample;
  }

  std::unique_ptr<Encoder> encoder_;
  SpecialTokens special_tokens_;
  std::string prompt_field_, completion_field_;
  bool trains_on_all_, names_template_;
  std::optional<ConversationSamples> conversations_;  // where there is a template
  std::string text_;
};

}  // namespace

std::unique_ptr<RecordReader> prompt_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                            const MessageFormat* messages) {
  return std::make_unique<PromptReader>(tokenizer, options, messages);
}

}  // namespace lockstep
