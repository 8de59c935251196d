// The token with which texts begin (bos_token), and prompts that begin with it.
#pragma once

#include "tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns the id of the tokenizer's bos_token. Local. Throws Error(usage), which names `option`, if its files name
/// none of its tokens.
std::int32_t bos_of(const Tokenizer& tokenizer, std::string_view option);

/// Returns the special token that transformers puts before a text with this tokenizer; not set: none. add_bos_token of
/// tokenizer_config.json decides. Without it the post_processor of tokenizer.json does, and a sentencepiece model puts
/// its bos_token there. Local. Throws as bos_of if a bos_token is wanted.
std::optional<std::int32_t> first_token_of(const Tokenizer& tokenizer);

/// Encodes texts that a model is to continue. Local.
class PromptEncoder {
 public:
  /// With `add_bos` a text begins with the bos_token; if it is not set, first_token_of decides. `tokenizer` must
  /// outlive the object. Throws as bos_of, which names sample.add_bos.
  PromptEncoder(const Tokenizer& tokenizer, std::optional<bool> add_bos);
  /// The tokens of a text, with the first one once. Throws Error(input) for characters that the tokenizer lacks.
  std::vector<std::int32_t> encode(const std::string& text);

 private:
  std::unique_ptr<Encoder> encoder_;
  std::optional<std::int32_t> first_;
};

}  // namespace lockstep
