#include "prepare/record_reader.hpp"

#include "base/error.hpp"
#include "prepare/first_token.hpp"

#include <optional>
#include <string>

namespace lockstep {

namespace {

std::int32_t eos_of(const Tokenizer& tokenizer) {
  if (const auto id = tokenizer.end_of_text()) return *id;
  throw Error(ExitCode::usage, "data.add_eos: the tokenizer has no end-of-text token",
              "name one of its tokens with --data.end_of_text, or set data.add_eos: false");
}

}  // namespace

std::unique_ptr<RecordReader> record_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                            const MessageFormat* messages) {
  switch (options.form) {
    case RecordForm::text: break;
    case RecordForm::tokenized: return tokenized_reader(tokenizer, options);
    case RecordForm::prompt: return prompt_reader(tokenizer, options, messages);
    case RecordForm::instruction: return instruction_reader(tokenizer, options);
    case RecordForm::messages:
      if (messages != nullptr) return message_reader(tokenizer, options, *messages);
      fail(ExitCode::bug, "messages are read without a template");
  }
  fail(ExitCode::bug, "text has no reader of records");
}

SampleShape sample_shape(const Tokenizer& tokenizer, const RecordOptions& options) {
  const auto wanted = [](bool wants, const auto& find) {
    return wants ? std::optional<std::int32_t>(find()) : std::nullopt;
  };
  return {options, wanted(options.add_bos.value(), [&] { return bos_of(tokenizer, "data.add_bos"); }),
          wanted(options.adds_eos(), [&] { return eos_of(tokenizer); })};
}

}  // namespace lockstep
