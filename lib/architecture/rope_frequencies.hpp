// Rotation frequencies of rotary positions (RoPE) for each pair of elements of a head, by the kind of scaling and the
// length of the text. Pure; computed in double. The tables of cos and sin: tensor/functions/rotary_table.hpp.
#pragma once

#include "architecture/model_config.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct RopeFrequencies {
  std::vector<double> radians;  // per position, for each of D/2 pairs
  double attention_factor = 1;  // factor of cos and sin
};

/// Returns the frequencies for a text of `length` tokens. `length` is that of the whole sample, regardless of documents
/// within it and of ranks that hold parts of it.
RopeFrequencies rope_frequencies(const Rope& rope, std::int64_t head_size, std::int64_t length);

/// Returns a representative of all lengths that have the same frequencies as `length`.
std::int64_t representative_length(const Rope& rope, std::int64_t length);

/// Longest text that the model has positions for, in tokens: its max_position_embeddings, or more if its frequencies
/// reach further.
std::int64_t longest_length(const ModelConfig& config);

}  // namespace lockstep
