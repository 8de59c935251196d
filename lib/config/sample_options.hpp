// What generated text is told: the section sample of a TrainConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct SampleOptions {
  std::vector<std::string> prompts;
  std::int64_t max_tokens = 100;
  double temperature = 0.8;           // 0: the most probable token
  std::optional<std::int64_t> top_k;  // absent: all tokens
  std::int64_t seed = 0;
};

}  // namespace lockstep
