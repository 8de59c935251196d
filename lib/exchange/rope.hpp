// Rotary position embeddings of a Hugging Face config, read and written in both spellings. The resulting frequencies:
// architecture/rope_frequencies.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class HfKeys;

/// RopeKind says how the frequencies θ^(−2i/D) change for texts longer than in the original training.
enum class RopeKind { unscaled, linear, dynamic, yarn, longrope, llama3 };
/// Returns rope_type as Hugging Face spells it: "default", "linear", …
std::string_view name_of(RopeKind kind);

struct Rope {
  RopeKind kind = RopeKind::unscaled;
  double theta = 10000;
  double factor = 1;                    // factor of the context length; not for unscaled
  std::int64_t original_positions = 0;  // longest original text; not for unscaled and linear
  // yarn, longrope: factor of cos and sin; not set: follows from factor.
  std::optional<double> attention_factor = {};
  double beta_fast = 32, beta_slow = 1;              // yarn: turns over the original text; ends of the ramp
  double mscale = 0, mscale_all_dim = 0;             // yarn: weights of the attention factor's logarithms; 0: none
  bool truncate = true;                              // yarn: round the ends of the ramp to whole numbers
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  std::vector<double> short_factor = {}, long_factor = {};  // longrope: divisors by dimension, D/2 each
  friend bool operator==(const Rope&, const Rope&) = default;
};

/// Reads the keys rope_scaling or rope_parameters (both if they are equal), and rope_theta beside or in them; `theta`
/// is its default. Problems go into `keys`, each under its name. `positions` is max_position_embeddings.
Rope read_rope(HfKeys& keys, double theta, std::int64_t head_size, std::int64_t positions, const std::string& origin);

/// Sets rope_theta and rope_scaling (transformers 4) and rope_parameters (transformers 5).
void write_rope(Json& document, const Rope& rope);

}  // namespace lockstep
