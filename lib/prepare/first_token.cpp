#include "prepare/first_token.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "prepare/message_format.hpp"

#include <algorithm>
#include <string>

namespace lockstep {

namespace {

/// The id of a special token of this name.
std::optional<std::int32_t> special_id(const Tokenizer& tokenizer, const std::string& name) {
  const MarkedIds made = tokenizer.encoder()->encode_marked({name, {}, {}});
  return made.ids.size() == 1 ? std::optional(made.ids[0]) : std::nullopt;
}

/// The content of a file of the tokenizer; null: it has no such file.
Json content_of(const Tokenizer& tokenizer, std::string_view name) {
  const auto file = std::ranges::find(tokenizer.files(), name, &TokenizerFile::name);
  return file == tokenizer.files().end() ? Json() : parse_json(file->content, std::string(name));
}

/// The special token before a text in a post-processor; empty: none. tokenizer/tokenizer_json.hpp has checked its form.
std::string first_in(const Json& processor) {
  if (!processor.is_object()) return {};
  if (processor.value("type", "") == "Sequence") {
    for (const Json& one : processor.at("processors"))
      if (std::string name = first_in(one); !name.empty()) return name;
  } else if (processor.value("type", "") == "TemplateProcessing") {
    const Json first = processor.at("single").at(0);
    if (first.contains("SpecialToken")) return first.at("SpecialToken").at("id").get<std::string>();
  }
  return {};
}

}  // namespace

std::int32_t bos_of(const Tokenizer& tokenizer, std::string_view option) {
  const std::string name = named_special_tokens(tokenizer).value("bos_token", "");
  const std::optional<std::int32_t> id = name.empty() ? std::nullopt : special_id(tokenizer, name);
  if (id) return *id;
  throw Error(ExitCode::usage,
              name.empty() ? fmt::format("{}: the tokenizer names no bos_token", option)
                           : fmt::format("{}: the tokenizer's bos_token '{}' is none of its tokens", option, name),
              fmt::format("name it in tokenizer_config.json, or leave {} out", option));
}

std::optional<std::int32_t> first_token_of(const Tokenizer& tokenizer) {
  const Json config = content_of(tokenizer, "tokenizer_config.json");
  const Json wanted = config.is_object() ? config.value("add_bos_token", Json()) : Json();
  if (wanted.is_boolean() && !wanted.get<bool>()) return std::nullopt;
  if (wanted.is_boolean()) return bos_of(tokenizer, "add_bos_token of tokenizer_config.json");
  if (const Json described = content_of(tokenizer, "tokenizer.json"); described.is_object()) {
    const std::string name = first_in(described.value("post_processor", Json()));
    return name.empty() ? std::nullopt : special_id(tokenizer, name);
  }
  const std::string name = named_special_tokens(tokenizer).value("bos_token", "");
  return name.empty() ? std::nullopt : special_id(tokenizer, name);
}

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, std::optional<bool> add_bos) : encoder_(tokenizer.encoder()) {
  if (!add_bos)
    first_ = first_token_of(tokenizer);
  else if (*add_bos)
    first_ = bos_of(tokenizer, "sample.add_bos");
}

std::vector<std::int32_t> PromptEncoder::encode(const std::string& text) {
  std::vector<std::int32_t> ids;
  encoder_->encode(text, ids);
  if (first_ && (ids.empty() || ids.front() != *first_)) ids.insert(ids.begin(), *first_);
  return ids;
}

}  // namespace lockstep
