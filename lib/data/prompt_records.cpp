// Records of a prompt and its completion. Their text is encoded as a whole, and the completion is what is behind the
// ids of the prompt alone, as TRL has it; where a token would reach across, TRL warns, and here both are encoded apart,
// as the model meets the prompt when it answers.
#include "corpus/json_member.hpp"
#include "data/record_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

class PromptReader : public RecordReader {
 public:
  PromptReader(const Tokenizer& tokenizer, const RecordOptions& options)
      : encoder_(tokenizer.encoder()),
        special_tokens_(tokenizer.special_tokens()),
        prompt_field_(options.prompt_field.value_or("prompt")),
        completion_field_(options.completion_field.value_or("completion")),
        trains_on_all_(options.trained() == TrainOn::all) {}

  Sample read(const simdjson::dom::object& record) override {
    text_ = text_of(record, prompt_field_, "data.prompt_field");
    const std::array<TextBorder, 1> border{TextBorder{text_.size()}};
    text_ += text_of(record, completion_field_, "data.completion_field");
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

 private:
  static std::string_view text_of(const simdjson::dom::object& record, const std::string& field,
                                  const std::string& option) {
    const auto member = member_of(record, field);
    if (!member) refuse_field(record, field, option);
    std::string_view text;
    if (member->get(text) != simdjson::SUCCESS) throw BadRecord{fmt::format("the field '{}' is not text", field)};
    return text;
  }

  std::unique_ptr<Encoder> encoder_;
  SpecialTokens special_tokens_;
  std::string prompt_field_, completion_field_;
  bool trains_on_all_;
  std::string text_;
};

}  // namespace

std::unique_ptr<RecordReader> prompt_reader(const Tokenizer& tokenizer, const RecordOptions& options) {
  return std::make_unique<PromptReader>(tokenizer, options);
}

}  // namespace lockstep
