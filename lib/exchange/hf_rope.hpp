// Rotary position embeddings of a Hugging Face config, read and written in both spellings. The resulting frequencies:
// architecture/rope_frequencies.hpp.
#pragma once

#include "architecture/model_config.hpp"
#include "base/json_fwd.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

class HfKeys;

/// Returns rope_type as Hugging Face spells it: "default", "linear", …
std::string_view name_of(RopeKind kind);

/// Reads the keys rope_scaling or rope_parameters (both if they are equal), and rope_theta beside or in them; `theta`
/// is its default. Problems go into `keys`, each under its name. `positions` is max_position_embeddings.
Rope read_rope(HfKeys& keys, double theta, std::int64_t head_size, std::int64_t positions, const std::string& origin);

/// Sets rope_theta and rope_scaling (transformers 4) and rope_parameters (transformers 5).
void write_rope(Json& document, const Rope& rope);

}  // namespace lockstep
