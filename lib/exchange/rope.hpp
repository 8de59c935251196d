// Rotary positions as a Hugging Face config describes them: read in both spellings, written in both. The frequencies
// that follow: architecture/rope_frequencies.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class HfKeys;

/// What becomes of the frequencies θ^(−2i/D) for texts longer than those of the first training.
enum class RopeKind { unscaled, linear, dynamic, yarn, longrope, llama3 };
/// "default", "linear", …: rope_type as Hugging Face spells it.
std::string_view name_of(RopeKind kind);

struct Rope {
  RopeKind kind = RopeKind::unscaled;
  double theta = 10000;
  double factor = 1;                            // by how much texts become longer; not of unscaled
  std::int64_t original_positions = 0;          // longest text before that; not of unscaled and linear
  std::optional<double> attention_factor = {};  // of yarn and longrope: of cos and sin, where it does not follow from
                                                // the factor
  double beta_fast = 32, beta_slow = 1;         // yarn: turns over a text, above and below which …
  double mscale = 0, mscale_all_dim = 0;        // yarn: weights of the attention factor's logarithms; 0: none
  bool truncate = true;                         // yarn: bounds of its ramp are whole numbers
  double low_freq_factor = 1, high_freq_factor = 4;         // llama3
  std::vector<double> short_factor = {}, long_factor = {};  // longrope: divisors by dimension, D/2 each
  friend bool operator==(const Rope&, const Rope&) = default;
};

/// Notes problems in `keys`, each under its name: rope_scaling or rope_parameters, both if they are equal, and
/// rope_theta beside or in them, `theta` if nothing says it. `positions` is max_position_embeddings.
Rope read_rope(HfKeys& keys, double theta, std::int64_t head_size, std::int64_t positions, const std::string& origin);

/// Sets rope_theta and rope_scaling (transformers 4) and rope_parameters (transformers 5).
void write_rope(Json& document, const Rope& rope);

}  // namespace lockstep
