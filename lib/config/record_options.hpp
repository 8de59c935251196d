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
  messages,   // a conversation
};

/// LabelPlace says where the labels of tokenized records stand.
enum class LabelPlace {
  aligned,  // at its own token, as in Hugging Face
  shifted,  // at the token before it, like model targets
};

/// TrainOn says which tokens count as labels.
enum class TrainOn {
  completion,  // tokens of the completion (prompt records)
  assistant,   // everything that the assistant writes (messages)
  last,        // the assistant's last message only
  all,
};

/// TooLong says how a sample longer than max_length is handled.
enum class TooLong { drop, truncate, split };

/// Options of records. If not set: the usual choice for the record form, or no limit.
struct RecordOptions {
  RecordForm form = RecordForm::text;
  Defaulted<LabelPlace> labels{LabelPlace::aligned};
  Defaulted<std::string> prompt_field{"prompt"}, completion_field{"completion"};
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
  bool adds_eos() const { return add_eos.value_or(form == RecordForm::prompt); }
};

}  // namespace lockstep
