// How records of messages become text: the chat template, its variables, and whether special tokens spelled in messages
// count as such. Each rank reads the format once; its threads share it. The rendering: chat/conversation_text.hpp.
#pragma once

#include "chat/conversation_text.hpp"
#include "config/prepare_config.hpp"
#include "tokenizer/special_tokens.hpp"
#include "tokenizer/tokenizer.hpp"

#include <map>
#include <memory>
#include <string>

namespace lockstep {

struct MessageFormat {
  ConversationFormat conversations;
  std::map<std::string, std::string> texts = {};  // texts of the model's templates, by name
  std::string origin = {};                        // file of the default template, for people
  std::string hash = {};                          // of the rendered templates and their variables
  SpecialTokens spelled = SpecialTokens::text;
};

/// Returns the format with the templates of data.chat_template, or with those beside the tokenizer. Returns null if
/// records hold no messages; for prompts, which may be text or messages, also if no usable template lies beside the
/// tokenizer. Local. Throws Error(usage) if there is no template, Error(input) for one that cannot be parsed.
std::shared_ptr<const MessageFormat> message_format(const PrepareDataOptions& options, const Tokenizer& tokenizer);

/// Returns the hash of that format; empty if message_format returns null. `tokenizer`: null if it is made from the text
/// itself. Local. Throws as message_format.
std::string message_format_hash(const PrepareDataOptions& options, const Tokenizer* tokenizer);

/// Returns bos_token, eos_token … by their names, as in the files of Hugging Face. Pure.
Json named_special_tokens(const Tokenizer& tokenizer);

/// Returns the value of "chat_template" among the options in DATASET.json.
Json json_of(const MessageFormat& format);

}  // namespace lockstep
