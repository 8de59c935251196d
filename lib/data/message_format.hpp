// How records of messages become text: the template, what it sees, and how what they spell of special tokens is read.
// Read once by each rank; its threads share it.
#pragma once

#include "chat/conversation_text.hpp"
#include "config/prepare_config.hpp"
#include "config/special_tokens.hpp"
#include "corpus/tokenizer.hpp"

#include <map>
#include <memory>
#include <string>

namespace lockstep {

struct MessageFormat {
  ConversationFormat conversations;
  std::map<std::string, std::string> texts = {};  // of the model's templates by name
  std::string origin = {};                        // of the default one, for people
  std::string hash = {};  // of the templates that conversations are rendered with, and of what these see besides
  SpecialTokens spelled = SpecialTokens::text;
};

/// With the templates that data.chat_template names, or that lie beside the tokenizer. Null where records hold no
/// messages; for prompts, which may be text or messages, also where no template that is understood lies there. Local.
/// Throws Error(usage) where there is no template, Error(input) for one that is not understood.
std::shared_ptr<const MessageFormat> message_format(const PrepareDataOptions& options, const Tokenizer& tokenizer);

/// The hash of that format; empty where records hold no messages. `tokenizer`: null where it is made of the text
/// itself. Local. Throws as message_format.
std::string message_format_hash(const PrepareDataOptions& options, const Tokenizer* tokenizer);

/// bos_token, eos_token … by their names, as the files of Hugging Face have them. Pure.
Json named_special_tokens(const Tokenizer& tokenizer);

/// "chat_template" of the options that DATASET.json has.
Json json_of(const MessageFormat& format);

}  // namespace lockstep
