// Writes the files by which transformers reads a tokenizer: tokenizer.json and tokenizer_config.json. Reading them:
// tokenizer/tokenizer_json.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/special_tokens.hpp"

#include <array>
#include <string>
#include <string_view>

namespace lockstep {

/// All names of tokenizer files that are copied along with a dataset or a model.
inline constexpr std::array<std::string_view, 10> tokenizer_file_names{"tokenizer.json",
                                                                       "tokenizer_config.json",
                                                                       "special_tokens_map.json",
                                                                       "added_tokens.json",
                                                                       "vocab.json",
                                                                       "merges.txt",
                                                                       "tokenizer.model",
                                                                       "chat_template.jinja",
                                                                       "chat_template.json",
                                                                       "plugin_tokenizer.json"};
/// Names the plug-in and its tokenizer.
inline constexpr const char* plugin_tokenizer_file = "plugin_tokenizer.json";
/// Member of a tokenizer_config.json: whether transformers reads special tokens as text.
inline constexpr const char* special_tokens_key = "split_special_tokens";

/// A whole tokenizer.json without post-processor.
std::string hf_tokenizer_json(const Json& normalizer, const Json& added_tokens, const Json& pre_tokenizer,
                              const Json& decoder, const Json& model);

/// The model of a tokenizer.json for a BPE.
Json bpe_model_json(const Json& vocabulary, const Json& merges);

/// A token in the form of added_tokens.
Json added_token_json(const AddedToken& token);

/// A tokenizer_config.json to accompany a tokenizer.json; without an eos_token if `end_name` is empty.
std::string tokenizer_config_json(const std::string& end_name, SpecialTokens reading);
/// The tokenizer_config.json of a sentencepiece model, whose control pieces are never read from text.
std::string sentencepiece_config_json(const std::string& end_name, bool is_bpe);
/// Stores in a tokenizer_config.json how special tokens are read.
void set_special_tokens(Json& config, SpecialTokens reading);
/// How special tokens are read according to a tokenizer_config.json.
SpecialTokens special_tokens_in(const Json& config);

}  // namespace lockstep
