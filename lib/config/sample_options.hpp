// Options of text generation: the section sample of a TrainConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct SampleOptions {
  std::vector<std::string> prompts;  // of the sample callback
  std::int64_t max_tokens = 100;
  double temperature = 0.8;           // 0: greedy
  std::optional<std::int64_t> top_k;  // default: all tokens
  std::optional<double> top_p;        // default: all tokens
  std::int64_t seed = 0;
  std::int64_t count = 1;         // texts of each prompt
  std::int64_t batch = 8;         // texts that are generated at once, at most
  std::vector<std::string> stop;  // texts that end a text
  std::optional<bool> add_bos;    // default: as the files of the tokenizer say
  // No option: tokens of the longest prompt, if the prompts are known as tokens.
  std::optional<std::int64_t> longest_prompt;
};

}  // namespace lockstep
