// The prompts of train --sample: texts and messages from the command line, files and standard input, as tokens.
#pragma once

#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "report/log.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizers.hpp"
#include "train/text_sampler.hpp"

#include <vector>

namespace lockstep {

/// Returns the prompts in the order of --sample, then of --sample-file. Rank 0 reads files and standard input, and the
/// watchdog lets it wait for the latter. `named` is the tokenizer's name, and its folder has the chat template unless
/// data.chat_template is set. Collective over the session's world. Throws Error(input) for an empty prompt, a malformed
/// file, or text that the tokenizer lacks characters of; Error(usage) for --chat and for messages without a chat
/// template, and as PromptEncoder does.
std::vector<Prompt> read_prompts(const TrainConfig& config, const Tokenizer& tokenizer, const TokenizerChoice& named,
                                 Session& session, Log& log);

}  // namespace lockstep
