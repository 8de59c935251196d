#include "prepare/message_format.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "chat/chat_template_file.hpp"
#include "tokenizer/tokenizers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

std::map<std::string, ChatTemplateFile> template_files(const PrepareDataOptions& options) {
  if (const auto& given = options.records.chat_template; given && is_chat_template(*given))
    return {{default_template, {.text = *given, .origin = "data.chat_template", .variables = Json::object()}}};
  if (options.records.chat_template) return read_chat_templates(*options.records.chat_template);
  const TokenizerChoice tokenizer = options.tokenizer_or_bytes();
  if (tokenizer.kind != TokenizerChoice::Kind::files)
    throw Error(
        ExitCode::usage,
        fmt::format("data.records messages needs a chat template, and the tokenizer '{}' has none", tokenizer.text()),
        "name one with --data.chat_template PATH");
  const Path path = tokenizer.path;
  try {
    return read_chat_templates(is_folder(path) ? path : absolute_path(path).parent_path());
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::input) throw;
    throw Error(ExitCode::input, problem.what(), "name a chat template with --data.chat_template PATH");
  }
}

std::shared_ptr<const MessageFormat> format_with(std::map<std::string, ChatTemplateFile> files,
                                                 const PrepareDataOptions& options, const Tokenizer& tokenizer) {
  const auto usual = files.find(default_template), for_tools = files.find(tool_template);
  if (usual == files.end())
    throw Error(
        ExitCode::input,
        fmt::format("there is no chat template '{}' next to {}", default_template, files.begin()->second.origin),
        "name one with --data.chat_template PATH");
  Json variables = usual->second.variables;
  variables.update(named_special_tokens(tokenizer));
  Json hashed{{"template", usual->second.text}, {"variables", variables}};
  std::optional<ChatTemplate> with_tools;
  if (for_tools != files.end()) {
    hashed[tool_template] = for_tools->second.text;
    with_tools.emplace(for_tools->second.text, for_tools->second.origin);
  }
  MessageFormat format{.conversations = {ChatTemplate(usual->second.text, usual->second.origin), std::move(variables),
                                         std::move(with_tools)},
                       .origin = usual->second.origin,
                       .hash = to_hex(hash128(to_text(hashed))),
                       .spelled = options.special_tokens_in_messages()};
  for (auto& [name, file] : files) format.texts.emplace(name, std::move(file.text));
  return std::make_shared<const MessageFormat>(std::move(format));
}

}  // namespace

std::shared_ptr<const MessageFormat> message_format(const PrepareDataOptions& options, const Tokenizer& tokenizer) {
  if (options.records.form != RecordForm::messages && options.records.form != RecordForm::prompt) return nullptr;
  const bool needs_template = options.records.form == RecordForm::messages || options.records.chat_template;
  try {
    return format_with(template_files(options), options, tokenizer);
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
