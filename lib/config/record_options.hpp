// What records hold and which of their tokens are trained on, as options name it. What it does: data/record_reader.hpp,
// data/sample_shape.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

enum class RecordForm {
  text,       // a field of text: a document
  tokenized,  // input_ids, perhaps labels and attention_mask
  prompt,     // a prompt and its completion
  messages,   // a conversation
};

/// LabelPlace says where the labels of tokenized records stand.
enum class LabelPlace {
  aligned,  // each at its own token, as in Hugging Face
  shifted,  // each at the token before it, as a model is fed
};

/// TrainOn says which tokens count as labels.
enum class TrainOn {
  completion,  // of a prompt
  assistant,   // of messages: what the assistant writes
  last,        // and of that the last message
  all,
};

/// TooLong says what becomes of a sample longer than max_length.
enum class TooLong { drop, truncate, split };

/// Absent: as each form is usually meant, or no limit.
struct RecordOptions {
  RecordForm form = RecordForm::text;
  std::optional<LabelPlace> labels;
  std::optional<std::string> prompt_field, completion_field, messages_field;
  std::optional<std::string> chat_template;  // a file or a folder with one
  std::optional<TrainOn> train_on;
  std::optional<bool> add_bos, add_eos;
  std::optional<std::int64_t> max_length, min_length, overlap;  // tokens
  std::optional<TooLong> too_long;

  TrainOn trained() const {
    return train_on.value_or(form == RecordForm::messages ? TrainOn::assistant : TrainOn::completion);
  }
  bool adds_eos() const { return add_eos.value_or(form == RecordForm::prompt); }
};

}  // namespace lockstep
