// The files by which transformers knows a tokenizer, as ours are written into them.
#pragma once

#include "base/json_fwd.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// All names under which a tokenizer's files go along with a dataset or a model.
inline constexpr std::array<std::string_view, 9> tokenizer_file_names{
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "chat_template.json"};

/// A whole tokenizer.json without normalizer and post-processor.
std::string hf_tokenizer_json(const Json& added_tokens, const Json& pre_tokenizer, const Json& decoder,
                              const Json& model);

/// A special token as added_tokens lists it.
Json added_token_json(std::int32_t id, const std::string& content);

/// A tokenizer_config.json; without a special token if `end_name` is empty.
std::string tokenizer_config_json(const std::string& tokenizer_class, const std::string& end_name);

}  // namespace lockstep
