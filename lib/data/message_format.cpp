#include "data/message_format.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "chat/chat_template_file.hpp"
#include "corpus/tokenizers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

ChatTemplateFile template_file(const PrepareDataOptions& options) {
  if (options.records.chat_template) return read_chat_template(*options.records.chat_template);
  const TokenizerChoice tokenizer = options.tokenizer_or_bytes();
  if (tokenizer.kind != TokenizerChoice::Kind::files)
    throw Error(
        ExitCode::usage,
        fmt::format("data.records messages needs a chat template, and the tokenizer '{}' has none", tokenizer.text()),
        "name one with --data.chat_template PATH");
  const Path path = tokenizer.path;
  try {
    return read_chat_template(is_folder(path) ? path : absolute_path(path).parent_path());
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::input) throw;
    throw Error(ExitCode::input, problem.what(), "name a chat template with --data.chat_template PATH");
  }
}

std::shared_ptr<const MessageFormat> format_with(ChatTemplateFile file, const PrepareDataOptions& options,
                                                 const Tokenizer& tokenizer) {
  file.variables.update(named_special_tokens(tokenizer));
  const Hash128 hash = hash128(to_text(Json{{"template", file.text}, {"variables", file.variables}}));
  return std::make_shared<const MessageFormat>(
      MessageFormat{.conversations = {ChatTemplate(file.text, file.origin), std::move(file.variables)},
                    .text = std::move(file.text),
                    .origin = file.origin,
                    .hash = to_hex(hash),
                    .spelled = options.special_tokens_in_messages()});
}

}  // namespace

std::shared_ptr<const MessageFormat> message_format(const PrepareDataOptions& options, const Tokenizer& tokenizer) {
  if (options.records.form != RecordForm::messages && options.records.form != RecordForm::prompt) return nullptr;
  const bool needs_template = options.records.form == RecordForm::messages || options.records.chat_template;
  try {
    return format_with(template_file(options), options, tokenizer);
  } catch (const Error& problem) {
    if (needs_template || (problem.code() != ExitCode::input && problem.code() != ExitCode::usage)) throw;
    return nullptr;  // prompts may be text
  }
}

std::string message_format_hash(const PrepareDataOptions& options, const Tokenizer* tokenizer) {
  const auto format = message_format(options, tokenizer != nullptr ? *tokenizer : *bytes_tokenizer());
  return format ? format->hash : "";
}

Json named_special_tokens(const Tokenizer& tokenizer) {
  Json tokens = Json::object();
  if (tokenizer.name() == "sentencepiece") tokens["bos_token"] = "<s>";
  const auto file = std::ranges::find(tokenizer.files(), "tokenizer_config.json", &TokenizerFile::name);
  if (file == tokenizer.files().end()) return tokens;
  add_special_tokens(tokens, parse_json(file->content, file->name));
  return tokens;
}

Json json_of(const MessageFormat& format) {
  return {{"file", format.origin},
          {"hash", format.hash},
          {"special_tokens", format.spelled == SpecialTokens::text ? "text" : "special"}};
}

}  // namespace lockstep
