// Options for records: which fields they have, and which of their tokens are trained on. How records are read:
// prepare/record_reader.hpp, prepare/sample_shape.hpp.
#pragma once

#include "options/defaulted.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

enum class RecordForm {
  text,       // a document in one text field
  tokenized,  // input_ids, with or without labels and attention_mask
  prompt,     // a prompt and its completion
  // an instruction with or without an input, which a template makes a prompt, and its output, the completion
  instruction,
  messages,  // a conversation
};

/// LabelPlace says where the labels of tokenized records stand.
enum class LabelPlace {
  aligned,  // at its own token, as in Hugging Face
  shifted,  // at the token before it, like model targets
};

/// TrainOn says which tokens count as labels.
enum class TrainOn {
  completion,  // tokens of the completion (prompt records) or the output (instruction records)
  assistant,   // everything that the assistant writes (messages)
  last,        // the assistant's last message only
  all,
};

/// The prompts that data.records instruction has by default: the headings of the data set Alpaca, and nothing else.
inline constexpr const char* usual_prompt = "### Instruction:\n{instruction}\n\n### Response:\n";
inline constexpr const char* usual_prompt_with_input =
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n";

/// TooLong says how a sample longer than max_length is handled.
enum class TooLong { drop, truncate, split };

/// Options of records. If not set: the usual choice for the record form, or no limit.
struct RecordOptions {
  RecordForm form = RecordForm::text;
  Defaulted<LabelPlace> labels{LabelPlace::aligned};
  Defaulted<std::string> prompt_field{"prompt"}, completion_field{"completion"};
  Defaulted<std::string> instruction_field{"instruction"}, output_field{"output"};
  std::optional<std::string> input_field;  // default: input, in records that have it
  // with {instruction}, and {input} in the second; default: the prompts above, if neither is set
  std::optional<std::string> prompt_template, prompt_template_with_input;
  std::optional<std::string> messages_field;  // default: messages, or conversations
  std::optional<std::string> chat_template;   // a file, a folder that holds one, or the template itself
  std::optional<TrainOn> train_on;
  Defaulted<bool> add_bos{false};
  std::optional<bool> add_eos;
  std::optional<std::int64_t> max_length, min_length;  // tokens
  Defaulted<std::int64_t> overlap{0};                  // tokens
  Defaulted<TooLong> too_long{TooLong::drop};

  TrainOn trained() const {
    return train_on.value_or(form == RecordForm::messages ? TrainOn::assistant : TrainOn::completion);
  }
  bool adds_eos() const { return add_eos.value_or(form == RecordForm::prompt || form == RecordForm::instruction); }
  bool sets_template() const { return prompt_template || prompt_template_with_input; }
  /// Returns the template of a record without an input; not set: such records have none.
  std::optional<std::string> template_without_input() const { return sets_template() ? prompt_template : usual_prompt; }
  /// Returns the template of a record with an input; not set: such records have none.
  std::optional<std::string> template_with_input() const {
    return sets_template() ? prompt_template_with_input : usual_prompt_with_input;
  }
};

}  // namespace lockstep
