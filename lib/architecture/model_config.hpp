// A model's configuration: family, sizes, and the mathematics of its blocks. Its blocks and tensors follow from it:
// architecture/architecture.hpp. It is read from the files of other programs: exchange/hf_config.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// The model families that Lockstep trains.
enum class Family { gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe };

/// Returns the family's name: "gpt2", "llama".
std::string_view name_of(Family family);

/// RopeKind says how the frequencies θ^(−2i/D) change for texts longer than in the original training.
enum class RopeKind { unscaled, linear, dynamic, yarn, longrope, llama3 };

/// Rotary position embeddings. The frequencies: architecture/rope_frequencies.hpp.
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

enum class Norm { layer_norm, rms_norm };
enum class Activation { gelu_tanh, gelu_erf, silu, relu };
enum class Positions { learned, rotary };

/// Dropout rates of training, from 0 to below 1.
struct DropoutRates {
  double embedding = 0;
  double attention = 0;  // of attention probabilities
  double residual = 0;   // of the outputs of attention and MLP
  bool operator==(const DropoutRates&) const = default;
  bool any() const { return embedding > 0 || attention > 0 || residual > 0; }
};

/// Mixture of experts. A router sends each token to the experts with the largest softmax(x·W). A layer may also have a
/// shared expert, an MLP for all tokens; its output is weighted with σ(x·w).
struct Experts {
  std::int64_t count = 0;                // E; 0: no experts
  std::int64_t per_token = 0;            // k
  std::int64_t feed_forward = 0;         // F of each expert
  std::int64_t shared_feed_forward = 0;  // F of the shared expert; 0: none
  bool normalised = true;                // weights of a token's experts are divided by their sum
  std::vector<bool> layers = {};         // by layer: whether experts replace its MLP
  double aux_coefficient = 0;            // weight of the load-balancing loss; 0: none
};

struct ModelConfig {
  Family family = Family::gpt2;
  std::int64_t vocabulary = 0;    // V
  std::int64_t channels = 0;      // C
  std::int64_t layers = 0;        // L
  std::int64_t heads = 0;         // H
  std::int64_t kv_heads = 0;      // ≤ H, divides it
  std::int64_t head_size = 0;     // D; H·D may differ from C, except for gpt2
  std::int64_t feed_forward = 0;  // F
  std::int64_t max_positions = 0;
  Norm norm = Norm::layer_norm;
  double norm_eps = 1e-5;
  Activation activation = Activation::gelu_tanh;
  bool gated_mlp = false;  // SwiGLU: down(act(gate x) · up x)
  Positions positions = Positions::learned;
  Rope rope = {};
  std::vector<std::int64_t> windows = {};  // by layer, as window_of returns; empty: no windows
  bool query_key_norm = false;             // RMSNorm over each head of q and k, before rotation
  bool qkv_bias = true;
  bool output_bias = true;  // of attention
  bool mlp_bias = true;
  Experts experts = {};
  bool tied_head = true;
  DropoutRates dropout = {};
  double initializer_range = 0.02;
  std::int64_t bos_token = -1;  // -1: none
  std::int64_t eos_token = -1;
  std::shared_ptr<const Json> original;  // the whole document that it was read from

  /// Returns the sliding window of a layer: the number of last keys that a query sees, including its own; 0: no window.
  std::int64_t window_of(int layer) const;
  bool has_experts(int layer) const;
  bool has_shared_expert(int layer) const { return has_experts(layer) && experts.shared_feed_forward > 0; }
  /// Returns the number of layers with experts among the first `first` layers.
  std::int64_t expert_layers(std::int64_t first) const;
};

}  // namespace lockstep
