// Options of text generation: the section sample of a TrainConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct SampleOptions {
  std::vector<std::string> prompts;
  std::int64_t max_tokens = 100;
  double temperature = 0.8;           // 0: greedy
  std::optional<std::int64_t> top_k;  // default: all tokens
  std::int64_t seed = 0;
};

}  // namespace lockstep
