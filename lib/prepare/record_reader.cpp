#include "prepare/record_reader.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "prepare/message_format.hpp"

#include <optional>
#include <string>

namespace lockstep {

namespace {

/// The id of a special token of this name.
std::optional<std::int32_t> special_id(const Tokenizer& tokenizer, const std::string& name) {
  const MarkedIds made = tokenizer.encoder()->encode_marked({name, {}, {}});
  return made.ids.size() == 1 ? std::optional(made.ids[0]) : std::nullopt;
}

std::int32_t bos_of(const Tokenizer& tokenizer) {
  const std::string name = named_special_tokens(tokenizer).value("bos_token", "");
  const std::optional<std::int32_t> id = name.empty() ? std::nullopt : special_id(tokenizer, name);
  if (id) return *id;
  throw Error(ExitCode::usage,
              name.empty() ? "data.add_bos: the tokenizer names no bos_token"
                           : fmt::format("data.add_bos: the tokenizer's bos_token '{}' is none of its tokens", name),
              "name it in tokenizer_config.json, or leave data.add_bos out");
}

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
  return {options, wanted(options.add_bos.value(), [&] { return bos_of(tokenizer); }),
          wanted(options.adds_eos(), [&] { return eos_of(tokenizer); })};
}

}  // namespace lockstep
