// How fast the pairs of a head turn from one position to the next, by the kind of rotary positions and the length of
// the text. Pure; computed in double. The tables of cos and sin: tensor/functions/rotary_table.hpp.
#pragma once

#include "exchange/hf_config.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct RopeFrequencies {
  std::vector<double> radians;  // by pair, D/2
  double attention_factor = 1;  // of cos and sin
};

/// Those of a text of `length` tokens: of its whole sample, wherever its documents start and whoever holds parts of it.
RopeFrequencies rope_frequencies(const Rope& rope, std::int64_t head_size, std::int64_t length);

/// A length that stands for all with the frequencies of `length`.
std::int64_t representative_length(const Rope& rope, std::int64_t length);

/// Tokens of the longest text that the model has positions for: its max_position_embeddings or, where its frequencies
/// reach farther, more.
std::int64_t longest_length(const HfConfig& config);

}  // namespace lockstep
