// Text generation from a model, token by token: temperature, top-k, and a draw that is a function of (seed, prompt,
// position) alone.
#pragma once

#include "config/train_config.hpp"
#include "model/model.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// `prompt` followed by up to options.max_tokens new tokens; ends early after `stop_token` (−1: never). The model sees
/// at most its max_positions last tokens. Local: every rank that holds the same weights gets the same tokens. Throws
/// Error(input) for an empty prompt.
std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options, std::int32_t stop_token = -1);

}  // namespace lockstep
