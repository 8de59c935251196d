// Records of an instruction, an input that may be absent, and an output, as in the data set Alpaca. A template makes
// the first two a prompt; the output is its completion.
#include "base/json_member.hpp"
#include "prepare/prompt_samples.hpp"
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

using PlaceText = std::pair<std::string_view, std::string_view>;  // {name} in a template, and its text

/// The template with the texts in its places. A text is not searched for places.
std::string filled(std::string_view pattern, const std::array<PlaceText, 2>& places) {
  std::string text;
  while (!pattern.empty()) {
    const auto place = std::ranges::find_if(places, [&](const auto& one) { return pattern.starts_with(one.first); });
    if (place != places.end()) {
      text += place->second;
      pattern.remove_prefix(place->first.size());
    }
    const std::size_t end = std::min(pattern.find('{', place == places.end() ? 1 : 0), pattern.size());
    text += pattern.substr(0, end);
    pattern.remove_prefix(end);
  }
  return text;
}

class InstructionReader : public RecordReader {
 public:
  InstructionReader(const Tokenizer& tokenizer, const RecordOptions& options)
      : samples_(tokenizer, options),
        instruction_field_(options.instruction_field.value()),
        input_field_(options.input_field),
        output_field_(options.output_field.value()),
        without_input_(options.template_without_input()),
        with_input_(options.template_with_input()) {}

  Sample read(const simdjson::dom::object& record) override {
    const std::string_view instruction = text_of_field(record, instruction_field_, "data.instruction_field");
    const std::string_view output = text_of_field(record, output_field_, "data.output_field");
    const std::string_view input = input_of(record);
    const std::string prompt = filled(template_for(input), {{{"{instruction}", instruction}, {"{input}", input}}});
    return samples_.sample_of(prompt, output);
  }
  std::uint64_t left_out() const override { return samples_.left_out(); }

 private:
  /// Empty: there is none.
  std::string_view input_of(const simdjson::dom::object& record) const {
    const std::string field = input_field_.value_or("input");
    const auto value = member_of(record, field);
    if (value ? value->is_null() : !input_field_) return {};
    return text_of_field(record, field, "data.input_field");
  }

  const std::string& template_for(std::string_view input) const {
    if (input.empty() && !without_input_)
      throw BadRecord{"the record has no input, but only data.prompt_template_with_input is set",
                      "name a template for such records with --data.prompt_template TEXT"};
    if (!input.empty() && !with_input_)
      throw BadRecord{"the record has an input, but only data.prompt_template is set",
                      "name a template for such records with --data.prompt_template_with_input TEXT"};
    return input.empty() ? *without_input_ : *with_input_;
  }

  PromptSamples samples_;
  std::string instruction_field_;
  std::optional<std::string> input_field_;
  std::string output_field_;
  std::optional<std::string> without_input_, with_input_;
};

}  // namespace

std::unique_ptr<RecordReader> instruction_reader(const Tokenizer& tokenizer, const RecordOptions& options) {
  return std::make_unique<InstructionReader>(tokenizer, options);
}

}  // namespace lockstep
