// Text generation from a model, token by token: temperature, top-k, and a draw that is a function of (seed, prompt, position) alone.
#pragma once

#include "model/model.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct Sampling {
  double temperature = 1;      // 0: always the most likely token
  std::int64_t top_k = 0;      // draw among the k most likely; 0: among all
  std::uint64_t seed = 0;
};

/// `prompt` followed by up to `count` new tokens; ends early after `stop_token` (−1: never). The model sees at most its max_positions last
/// tokens. Local: every rank that holds the same weights gets the same tokens. Throws Error(input) for an empty prompt.
std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt, std::int64_t count,
                                   const Sampling& sampling, std::int32_t stop_token = -1);

}  // namespace lockstep
