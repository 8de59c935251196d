// Text generation from a model, token by token: temperature, top-k, and a draw that is a function of (seed, prompt,
// position) alone.
#pragma once

#include "config/sample_options.hpp"
#include "model/model.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// Which tokens may come next, and which is the last.
struct Continuation {
  std::vector<std::int32_t> candidates = {};  // the only ids that are drawn, ascending; empty: all of the model
  std::int32_t stop_token = -1;               // ends the text early; −1: never
};

/// `prompt` followed by up to options.max_tokens new tokens. The model sees at most its max_positions last tokens.
/// Local: every rank that holds the same weights gets the same tokens. Throws Error(input) for an empty prompt.
std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options, const Continuation& next = {});

}  // namespace lockstep
