#include "config/record_config.hpp"

#include "base/text.hpp"
#include "chat/chat_template_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace lockstep {

ChoiceList<RecordForm> choices_of(RecordForm) {
  return {{RecordForm::text, "text", "text in one field"},
          {RecordForm::tokenized, "tokenized", "input_ids, with or without labels"},
          {RecordForm::prompt, "prompt", "a prompt and its completion: both texts, or both lists of messages"},
          {RecordForm::instruction, "instruction", "an instruction, with or without an input, and its output"},
          {RecordForm::messages, "messages", "a conversation"}};
}
ChoiceList<LabelPlace> choices_of(LabelPlace) {
  return {{LabelPlace::aligned, "aligned", "each label stands at its own token"},
          {LabelPlace::shifted, "shifted", "each label stands at the token before"}};
}
ChoiceList<TrainOn> choices_of(TrainOn) {
  return {{TrainOn::completion, "completion", "the completion of a prompt, or the output of an instruction"},
          {TrainOn::assistant, "assistant", "all messages of the assistant"},
          {TrainOn::last, "last", "the last message of the assistant"},
          {TrainOn::all, "all", "all tokens"}};
}
ChoiceList<TooLong> choices_of(TooLong) {
  return {{TooLong::drop, "drop", "leave the sample out"},
          {TooLong::truncate, "truncate", "keep the first data.max_length tokens"},
          {TooLong::split, "split", "make several samples"}};
}

namespace {

constexpr double most_tokens = 0x1p31 - 1;  // of a sample

/// Each form has its own choices of what is trained on.
void check_train_on(const RecordOptions& records, Problems& problems) {
  using enum TrainOn;
  const auto refuse = [&](const char* choices) {
    problems.add({"data.train_on", "data.records"},
                 fmt::format("data.train_on {} does not fit data.records {}, which takes {}",
                             choice_name(*records.train_on), choice_name(records.form), choices));
  };
  if (!records.train_on || records.train_on == all) return;
  const bool has_completion = records.form == RecordForm::prompt || records.form == RecordForm::instruction;
  if (has_completion && records.train_on != completion) refuse("completion or all");
  if (records.form == RecordForm::messages && records.train_on == completion) refuse("assistant, last or all");
}

/// Names of fields that a template may hold, in braces.
constexpr std::string_view instruction_place = "{instruction}", input_place = "{input}";

/// Returns the first name in braces that is no field, with its braces; empty: there is none.
std::string_view unknown_place(std::string_view text) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find('{'); at != text.npos; at = text.find('{', at + 1)) {
    const std::string_view rest = text.substr(at);
    const std::size_t end =
        static_cast<std::size_t>(std::ranges::find_if_not(rest.substr(1), is_letter) - rest.begin());
    if (end == 1 || end == rest.size() || rest[end] != '}') continue;
    const std::string_view place = rest.substr(0, end + 1);
    if (place != instruction_place && place != input_place) return place;
  }
  return {};
}

void check_template(const std::string& option, const std::optional<std::string>& text, bool has_input,
                    Problems& problems) {
  if (!text) return;
  const std::string_view unknown = unknown_place(*text);
  if (!unknown.empty())
    problems.add({option}, fmt::format("{} has {}, but a template has only {{instruction}} and {{input}}: the output "
                                       "follows it",
                                       option, unknown));
  if (text->find(instruction_place) == text->npos)
    problems.add({option}, fmt::format("{} lacks {{instruction}}, the place of the instruction", option));
  if ((text->find(input_place) != text->npos) == has_input) return;
  problems.add({option}, has_input ? fmt::format("{} lacks {{input}}, the place of the input", option)
                                   : fmt::format("{} has {{input}}, but it is for records without an input: use "
                                                 "data.prompt_template_with_input",
                                                 option));
}

}  // namespace

void describe_records(Declaration& visit, RecordOptions& records) {
  visit.field("records", records.form,
              {
                  .brief = "record type: text, tokenized, prompt, instruction or messages",
              });
  visit.field("labels", records.labels, {.brief = "position of labels in tokenized records: aligned or shifted"});
  visit.field("prompt_field", records.prompt_field, {.brief = "field of the prompt", .value_name = "NAME"});
  visit.field("completion_field", records.completion_field, {.brief = "field of the completion", .value_name = "NAME"});
  visit.field("instruction_field", records.instruction_field,
              {.brief = "field of the instruction", .value_name = "NAME"});
  visit.field("input_field", records.input_field,
              {.brief = "field of the input of an instruction",
               .details = "A record whose input is empty or null has none. If the option is set, each record has the "
                          "field",
               .unset = "input, in records that have it",
               .value_name = "NAME"});
  visit.field("output_field", records.output_field,
              {.brief = "field of the output of an instruction", .value_name = "NAME"});
  visit.field("prompt_template", records.prompt_template,
              {.brief = "prompt of an instruction without input: text with {instruction}",
               .unset = "the headings of Alpaca, unless data.prompt_template_with_input is set",
               .value_name = "TEXT"});
  visit.field("prompt_template_with_input", records.prompt_template_with_input,
              {.brief = "prompt of an instruction with an input: {instruction} and {input}",
               .unset = "the headings of Alpaca, unless data.prompt_template is set",
               .value_name = "TEXT"});
  visit.field("messages_field", records.messages_field,
              {.brief = "field of the messages",
               .unset = "messages, or conversations in records without messages",
               .value_name = "NAME"});
  visit.field("chat_template", records.chat_template,
              {.brief = "chat template: a Jinja file, tokenizer_config.json, a folder, or text",
               .details = "A text with {{ or {% is the template itself",
               .unset = "the template beside the tokenizer",
               .value_name = "PATH",
               .completes = Completes::files,
               .is_content = is_chat_template});
  visit.field("train_on", records.train_on,
              {.brief = "trained tokens: completion, assistant, last or all",
               .details = "A prompt and an instruction take completion or all. Messages take assistant, last or all",
               .unset = "completion; assistant for messages"});
  visit.field("add_bos", records.add_bos, {.brief = "begin each sample with the tokenizer's bos_token, once"});
  visit.field("add_eos", records.add_eos,
              {.brief = "end each sample with the end-of-text token, once",
               .unset = "only after a completion that is text, and an output"});
  visit.field("max_length", records.max_length,
              {.brief = "maximum tokens of a sample made from a record",
               .unset = "no limit",
               .unit = "tokens",
               .min = 2,
               .max = most_tokens});
  visit.field("too_long", records.too_long, {.brief = "samples over max_length: drop, truncate, or split into parts"});
  visit.field("overlap", records.overlap,
              {.brief = "overlap of split samples in tokens: context that is not trained again",
               .unit = "tokens",
               .min = 0,
               .max = most_tokens});
  visit.field("min_length", records.min_length,
              {.brief = "minimum tokens of a sample; shorter ones are dropped",
               .unset = "no limit",
               .unit = "tokens",
               .min = 1,
               .max = most_tokens});
}

void check_records(const RecordOptions& records, Problems& problems) {
  using enum RecordForm;
  const auto only_with = [&](bool is_set, const char* option, const std::vector<RecordForm>& forms) {
    if (!is_set || std::ranges::find(forms, records.form) != forms.end()) return;
    std::vector<std::string> names;
    for (const RecordForm form : forms) names.emplace_back(choice_name(form));
    problems.add({fmt::format("data.{}", option), "data.records"},
                 fmt::format("data.{} has no effect unless data.records is {}", option, join(names, " or ")));
  };
  only_with(records.labels.is_set(), "labels", {tokenized});
  only_with(records.prompt_field.is_set(), "prompt_field", {prompt});
  only_with(records.completion_field.is_set(), "completion_field", {prompt});
  only_with(records.instruction_field.is_set(), "instruction_field", {instruction});
  only_with(records.input_field.has_value(), "input_field", {instruction});
  only_with(records.output_field.is_set(), "output_field", {instruction});
  only_with(records.prompt_template.has_value(), "prompt_template", {instruction});
  only_with(records.prompt_template_with_input.has_value(), "prompt_template_with_input", {instruction});
  only_with(records.messages_field.has_value(), "messages_field", {messages});
  only_with(records.chat_template.has_value(), "chat_template", {prompt, messages});
  only_with(records.train_on.has_value(), "train_on", {prompt, instruction, messages});
  only_with(records.add_bos.is_set(), "add_bos", {tokenized, prompt, instruction, messages});
  only_with(records.add_eos.has_value(), "add_eos", {tokenized, prompt, instruction, messages});
  only_with(records.max_length.has_value(), "max_length", {tokenized, prompt, instruction, messages});
  only_with(records.min_length.has_value(), "min_length", {tokenized, prompt, instruction, messages});
  check_train_on(records, problems);
  check_template("data.prompt_template", records.prompt_template, false, problems);
  check_template("data.prompt_template_with_input", records.prompt_template_with_input, true, problems);
  if (records.too_long.is_set() && !records.max_length)
    problems.add({"data.too_long", "data.max_length"}, "data.too_long has no effect without data.max_length");
  if (records.overlap.is_set() && records.too_long.value() != TooLong::split)
    problems.add({"data.overlap", "data.too_long"}, "data.overlap has no effect unless data.too_long is split");
  if (records.overlap.is_set() && records.max_length && records.overlap.value() >= *records.max_length)
    problems.add({"data.overlap", "data.max_length"}, fmt::format("data.overlap {} must be below data.max_length {}",
                                                                  records.overlap.value(), *records.max_length));
  if (records.min_length && records.max_length && *records.min_length > *records.max_length)
    problems.add({"data.min_length", "data.max_length"}, fmt::format("data.min_length {} is above data.max_length {}",
                                                                     *records.min_length, *records.max_length));
}

Json json_of(const RecordOptions& records) {
  Json json{{"records", choice_name(records.form)}};
  switch (records.form) {
    case RecordForm::text: return json;
    case RecordForm::tokenized: json["labels"] = choice_name(records.labels.value()); break;
    case RecordForm::messages: json["messages_field"] = records.messages_field.value_or("messages"); break;
    case RecordForm::prompt:
      json["prompt_field"] = records.prompt_field.value();
      json["completion_field"] = records.completion_field.value();
      break;
    case RecordForm::instruction: {
      const auto text = [](const std::optional<std::string>& value) { return value ? Json(*value) : Json(); };
      json["instruction_field"] = records.instruction_field.value();
      json["input_field"] = records.input_field.value_or("input");
      json["output_field"] = records.output_field.value();
      json["prompt_template"] = text(records.template_without_input());
      json["prompt_template_with_input"] = text(records.template_with_input());
      break;
    }
  }
  if (records.form != RecordForm::tokenized) json["train_on"] = choice_name(records.trained());
  json["add_bos"] = records.add_bos.value();
  json["add_eos"] = records.adds_eos();
  const auto number = [](const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); };
  json["max_length"] = number(records.max_length);
  json["min_length"] = number(records.min_length);
  if (records.max_length) json["too_long"] = choice_name(records.too_long.value());
  if (records.too_long.value() == TooLong::split) json["overlap"] = records.overlap.value();
  return json;
}

}  // namespace lockstep
